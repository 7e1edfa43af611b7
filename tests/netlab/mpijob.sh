#!/usr/bin/env bash
# mpijob.sh PROGRAM LOSSY_SWITCH: an MPIJob of a launcher and three workers with two network interfaces each, in namespaces
# of this machine: what goes well on a cluster, and what does not, each said by name.
# Exit code 77: this machine does not permit namespaces, and the last line says what it said.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
readonly PROGRAM=$1 LOSSY_SWITCH=$2

# shellcheck source=tests/netlab/inside.sh
. "$HERE/inside.sh"
in_namespaces "$0" "$@"

# shellcheck source=tests/netlab/pods.sh
. "$HERE/pods.sh"
start_pods

readonly FABRIC=(--transport libfabric --transport-provider tcp)
readonly RUN=(--model-experts 12 --model-layers 1 --set compute.threads=1 --set output.dir="$LAB/results")
readonly SHORT=(--set measure.blocks=1 --set measure.steps=1 --set measure.warmup_steps=0 --set grpo.prompts=4
  --set grpo.group_size=2 --set grpo.response_tokens_max=4)
readonly FOREVER=(--set measure.steps=100000 --set transport.timeout_s=3)

# in_job EXPECTED_CODE COMMAND...: in the launcher, what it says in $LAB/out and $LAB/err.
in_job() {
  local expected=$1 code=0
  shift
  in_launcher "$@" >"$LAB/out" 2>"$LAB/err" </dev/null || code=$?
  [ "$code" -eq "$expected" ] || fail "exit code $code and not $expected: $*: $(cat "$LAB/out" "$LAB/err")"
}

says() { grep -q -- "$1" "$LAB/out" || fail "does not say '$1': $(cat "$LAB/out" "$LAB/err")"; }
says_not() { ! grep -q -- "$1" "$LAB/out" || fail "says '$1': $(cat "$LAB/out")"; }
ok() { echo "ok after ${SECONDS}s: $1"; }

sent_by() { on "$1" cat /sys/class/net/eth1/statistics/tx_bytes; }  # libfabric alone uses that interface

# in_the_middle EXPECTED_CODE WITHIN_S FAULT...: a run that would take hours, a fault in it, and its end.
in_the_middle() {
  local expected=$1 within_s=$2 before code=0 launcher began
  shift 2
  rm -rf "$LAB/ranks" "$LAB/results"
  in_launcher "$PROGRAM" run --ranks 3 "${FABRIC[@]}" "${RUN[@]}" "${FOREVER[@]}" >"$LAB/out" 2>"$LAB/err" </dev/null &
  launcher=$!
  before=$(sent_by "${WORKERS[0]}")
  until [ "$(sent_by "${WORKERS[0]}")" -gt $((before + 500000)) ]; do
    kill -0 $launcher 2>/dev/null || fail "the run ended before its fault: $(cat "$LAB/out" "$LAB/err")"
    sleep 0.1
  done
  "$@"
  began=$SECONDS
  wait $launcher || code=$?
  while pgrep -f "^$PROGRAM run" >/dev/null; do
    [ $((SECONDS - began)) -lt "$within_s" ] || fail "after $within_s s ranks are alive: $(ps aux)"
    sleep 0.1
  done
  [ "$code" -eq "$expected" ] || fail "exit code $code and not $expected: $(cat "$LAB/err")"
  echo "all ended $((SECONDS - began))s after it, with exit code $code"
}

# limit POD RATE: of what each of its interfaces sends.
limit() {
  local rail
  for ((rail = 0; rail < RAILS; ++rail)); do
    on "$1" tc qdisc replace dev "eth$rail" root tbf rate "$2" burst 64kb latency 50ms
  done
}
no_limit() {
  local rail
  for ((rail = 0; rail < RAILS; ++rail)); do on "$1" tc qdisc del dev "eth$rail" root; done
}

# measure_network [SLOW_HOST]: doctor --network, again when it names another host as slow. Three ranks on two processors with
# neighbours: one that waits for a processor looks slow or far away, but not every time.
measure_network() {
  for _ in 1 2 3 4 5; do
    in_job 0 "$PROGRAM" doctor --ranks 3 --network "${FABRIC[@]}"
    grep "^warn    node-" "$LAB/out" | grep -qv -- "-[a-z]*: ${1:-no host} " || break
  done
}

hostfile 1 "${WORKERS[@]}"

# Before mpirun: this lab has no sshd, which the launcher can see, and says.
in_job 5 "$PROGRAM" doctor
says "refuse  hosts: ${WORKERS[0]}.$JOB.default.svc: port 22 does not answer: Connection refused"
ok "doctor in the launcher finds that no sshd is there"

measure_network
says "# 3 ranks on 3 nodes (${WORKERS[0]})"
says "^fit$"
says_not "^refuse\|^warn\|^note"
says "# network: 6 pairs over libfabric"
ok "doctor over healthy workers has no findings"

in_job 0 "$PROGRAM" run --ranks 3 "${FABRIC[@]}" "${RUN[@]}" "${SHORT[@]}"
says "measured.* libfabric (tcp;ofi_rxm, $RAILS rails)"
says "NIC: 1\.[0-9]* of the .* that whole launches handed over (tx_bytes of eth0, eth1)"
ok "run on three workers, whose interfaces counted what was handed over"

# Launcher as worker: it comes first in the hostfile, and rank 0 runs in it. Its ranks alone have the environment of the
# pod, which mpirun hands on to the others only where it is told to.
hostfile 1 "${PODS[@]}"
in_job 0 "$PROGRAM" run --ranks 4 "${FABRIC[@]}" "${RUN[@]}" "${SHORT[@]}"
says "4 ranks on 4 nodes ($LAUNCHER)"
says_not "not comparable"
ok "run with the launcher as a worker"
in_job 0 env FI_EFA_USE_HUGE_PAGE=0 mpirun -np 4 --allow-run-as-root "$PROGRAM" doctor
says "warn    environment: FI_EFA_USE_HUGE_PAGE: '0' on rank 0 ($LAUNCHER), not set on rank 1 (${WORKERS[0]})"
in_job 0 env FI_EFA_USE_HUGE_PAGE=0 mpirun -np 4 --allow-run-as-root -x FI_EFA_USE_HUGE_PAGE "$PROGRAM" doctor
says_not "environment"
ok "a variable that does not reach the workers is named, and is not once mpirun hands it on"
hostfile 1 "${WORKERS[@]}"

on "${WORKERS[2]}" mount -o remount,size=1m /dev/shm
in_job 0 "$PROGRAM" doctor --ranks 3
says "warn    shm-size: /dev/shm has"
says "on  ${WORKERS[2]}"
on "${WORKERS[2]}" mount -o remount,size=2g /dev/shm
ok "a tiny /dev/shm is named with its host"

on "${WORKERS[1]}" ip link set eth0 mtu 9000
in_job 0 "$PROGRAM" doctor --ranks 3 --network "${FABRIC[@]}"
says "warn    mtu: MTU of eth0: 1500 on rank 0 (${WORKERS[0]}), 9000 on rank 1 (${WORKERS[1]})"
says "warn    path-mtu: datagrams of 9000 bytes from ${WORKERS[1]} to ${WORKERS[0]} are lost, and of 1500 pass"
on "${WORKERS[1]}" ip link set eth0 mtu 1500
ok "an MTU that does not fit is named with its path"

limit "${WORKERS[1]}" 100mbit
measure_network "${WORKERS[1]}"
says "warn    node-bandwidth: ${WORKERS[1]} sends"
says_not "node-bandwidth: ${WORKERS[0]}\|node-bandwidth: ${WORKERS[2]}"
sed -n '/^# network/,$p' "$LAB/out"
limit "${WORKERS[1]}" 5mbit
in_job 0 "$PROGRAM" run --ranks 3 "${FABRIC[@]}" "${RUN[@]}" "${SHORT[@]}" --set grpo.prompts=24
grep "last to arrive" "$LAB/out"
says "last to arrive: ${WORKERS[1]} for .* (of 3 alike: 33%)"
no_limit "${WORKERS[1]}"
ok "a slow host is named, and no other"

# Delay and loss: a switch of our own in place of the bridges.
switches=()
for ((rail = 0; rail < RAILS; ++rail)); do
  ports=()
  for index in "${!PODS[@]}"; do
    on "${PODS[$index]}" "$LOSSY_SWITCH" plain "eth$rail"
    ip link set "p${index}r$rail" nomaster
    ports+=("p${index}r$rail")
  done
  "$LOSSY_SWITCH" 1000 5 "${ports[@]}" &
  switches+=($!)
done
in_job 0 "$PROGRAM" doctor --ranks 3 --network --format json "${FABRIC[@]}"
latencies=$(grep -o '"latency_us": [0-9]*' "$LAB/out" | grep -c ': [0-9]\{4,\}')
[ "$latencies" -eq 6 ] || fail "$latencies of 6 pairs are 1 ms apart: $(cat "$LAB/out")"
in_job 0 "$PROGRAM" run --ranks 3 "${FABRIC[@]}" "${RUN[@]}" "${SHORT[@]}"
says "measured.* libfabric (tcp;ofi_rxm, $RAILS rails)"
kill "${switches[@]}"
for ((rail = 0; rail < RAILS; ++rail)); do
  for index in "${!PODS[@]}"; do ip link set "p${index}r$rail" master "br$rail"; done
done
ok "with 1 ms of delay and 0.5% of loss the latency is seen, and a run ends well"

# Open MPI alone would hang.
in_the_middle 6 40 set_links_of 3 down
grep -q "ranks wait in vain" "$LAB"/ranks/*/rank.0/stderr || fail "rank 0 does not say who is missing: $(cat "$LAB"/ranks/*/rank.0/stderr)"
set_links_of 3 up
ok "the links of one worker cut"

kill_worker() { kill -9 "$(pid_of "${WORKERS[1]}")"; }
in_the_middle 6 40 kill_worker
grep -q "^error: node .* is gone, and its ranks with it" "$LAB/err" || fail "does not say who is gone: $(cat "$LAB/err")"
ok "a worker killed"
