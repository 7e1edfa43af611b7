#!/usr/bin/env bash
# netlab.sh PROGRAM: the program on three hosts with two network interfaces each, in network namespaces of this machine.
# All dispatchers over both rails, checked; then the link of one host is cut during a run.
# Exit code 77: this machine does not permit namespaces, and the last line says what it said.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
readonly PROGRAM=$1

# shellcheck source=tests/netlab/inside.sh
. "$HERE/inside.sh"
in_namespaces "$0" "$@"

# shellcheck source=tests/netlab/hosts.sh
. "$HERE/hosts.sh"
start_hosts

readonly FABRIC=(--transport libfabric --transport-provider tcp)
readonly KERNELS=(--dispatcher "alltoall,rank_dedup,allgather,two_hop,low_latency,proxy" --dispatcher-dedup node)
# Each host takes the cores of this machine for its own.
readonly RUN=(--model-experts 12 --model-layers 1 --set compute.threads=1 --set output.dir="$LAB/results")
readonly MODEL=(--model-hidden 64 --model-experts 12 --model-top-k 4)

words_of() { cat "$LAB"/ranks/*/rank."$1"/stderr; }

# checked NAME RANKS_PER_HOST ARGUMENTS...: it ends well, every dispatcher over both rails of real hosts.
checked() {
  local name=$1 per_host=$2 carried
  shift 2
  in_ranks "$per_host" "$PROGRAM" "$@" >"$LAB/out" 2>"$LAB/err" ||
    fail "$name: exit code $?: $(cat "$LAB/out" "$LAB/err")"
  carried=$(grep -c "measured.* libfabric (tcp;ofi_rxm, $RAILS rails)" "$LAB/out")
  [ "$carried" -eq 6 ] || fail "$name: $carried of 6 dispatchers over $RAILS rails: $(cat "$LAB/out")"
  echo "ok after ${SECONDS}s: $name"
}

checked "micro dispatch" 1 micro dispatch "${FABRIC[@]}" "${KERNELS[@]}" "${MODEL[@]}" --tokens 48 --launches 1 -n 2 -w 1
checked "micro pair, two ranks on each host" 2 micro pair "${FABRIC[@]}" "${KERNELS[@]}" "${MODEL[@]}" --tokens 48 \
  --launches 1 -n 2 -w 1 -d bf16
checked "run" 1 run "${FABRIC[@]}" "${KERNELS[@]}" "${RUN[@]}" --set measure.blocks=1 --set measure.steps=1 \
  --set measure.warmup_steps=0 --set grpo.prompts=3 --set grpo.group_size=2 --set grpo.response_tokens_max=4

# The link of node2 is cut in the middle of a run that would take hours.
# A rank waits so long for a message, 10 s more for a meeting of all, and the last that speaks 11 s more for others.
readonly TIMEOUT_S=3 ENDS_WITHIN_S=40
rm -rf "$LAB/ranks" "$LAB/results"
in_ranks 1 "$PROGRAM" run "${FABRIC[@]}" "${RUN[@]}" --dispatcher two_hop --set measure.steps=100000 \
  --set transport.timeout_s=$TIMEOUT_S >"$LAB/out" 2>"$LAB/err" &
launcher=$!
sent_over_eth1() { on 1 cat /sys/class/net/eth1/statistics/tx_bytes; }
before=$(sent_over_eth1)
until [ "$(sent_over_eth1)" -gt $((before + 500000)) ]; do  # libfabric alone uses it
  kill -0 $launcher 2>/dev/null || fail "the run ended before its link was cut: $(cat "$LAB/out" "$LAB/err")"
  sleep 0.1
done
cut_links_of 2
cut_s=$SECONDS
code=0
wait $launcher || code=$?
echo "the launcher ended $((SECONDS - cut_s))s after the cut, with exit code $code"
[ $code -eq 6 ] || fail "its exit code is $code and not 6: $(cat "$LAB/err")"
while pgrep -f "^$PROGRAM run" >/dev/null; do
  [ $((SECONDS - cut_s)) -lt $ENDS_WITHIN_S ] || fail "after $ENDS_WITHIN_S s ranks are alive: $(ps aux)"
  sleep 0.1
done
echo "the last rank ended $((SECONDS - cut_s))s after the cut"
expect() { words_of "$1" | grep -q "$2" || fail "rank $1 does not say '$2': $(words_of "$1")"; }
expect 0 'error: 2 of 3 ranks wait in vain; no answer from rank 2'
expect 0 "\[rank 1 of 3, node node1\] .*: waited "
expect 0 'rank 0 ends all ranks with exit code 6'
expect 2 'error: 1 of 3 ranks wait in vain; no answer from rank 0, 1'
expect 2 'rank 2 ends all ranks with exit code 6'
echo "ok after ${SECONDS}s: the link of one host cut"
