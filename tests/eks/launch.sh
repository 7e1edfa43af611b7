#!/usr/bin/env bash
# scripts/eks/launch.sh and the launcher of the image, with kubectl, ssh and mpirun played by scripts: what users and
# clusters do to them.  launch.sh BINARY
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
MRB_BINARY=$(realpath "$1")
export MRB_BINARY MRB_POLL_S=0.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
export PATH="$work/bin:$PATH" STATE="$work/state"

# kubectl: one job, whose pod has the phases of $STATE/phases, one at each look, the last one for ever.
cat >"$work/bin/kubectl" <<'KUBECTL'
#!/usr/bin/env bash
echo "$*" >>"$STATE/calls"
case " $* " in
  *" get mpijob "*) [ -e "$STATE/applied" ] ;;
  *" apply "*) touch "$STATE/applied" ;;
  *" delete "*) touch "$STATE/deleted" ;;
  *"{.items[0].status.phase}"*)
    head -n 1 "$STATE/phases"
    if [ "$(wc -l <"$STATE/phases")" -gt 1 ]; then sed -i 1d "$STATE/phases"; fi
    ;;
  *"exitCode}"*) cat "$STATE/exit_code" ;;
  *" get events "*) echo "Warning FailedScheduling pod/moe-rl-bench-worker-0 0/3 nodes: Insufficient vpc.amazonaws.com/efa, $(sed -n 's/.*job-name=\([a-z0-9-]*\)-launcher.*/\1/p' "$STATE/calls" | head -n 1)" ;;
  *" logs --follow "*)
    cat "$STATE/log"
    if [ -e "$STATE/hangs" ]; then exec sleep 60; fi
    ;;
  *" logs "*) cat "$STATE/log" ;;
esac
KUBECTL
chmod +x "$work/bin/kubectl"

begin() {
  printf '\n-- %s\n' "$1"
  rm -rf "$STATE" "$work/out" "$work/results"
  mkdir "$STATE"
  printf '%s\n' Pending Running Succeeded >"$STATE/phases"
  echo 0 >"$STATE/exit_code"
  mkdir -p "$work/made/run-1"
  echo '{"schema": 1}' >"$work/made/run-1/result.json"
  { echo "tokens/s 11247"; pack_log; } >"$STATE/log"
}

pack_log() {
  tar -C "$work/made" -czf "$work/made.tar.gz" .
  printf '\n=== results begin %s\n' "$(sha256sum <"$work/made.tar.gz" | cut -d' ' -f1)"
  base64 "$work/made.tar.gz"
  echo '=== results end'
}

launch() {
  local expected=$1 code=0
  shift
  timeout 60 "$root/scripts/eks/launch.sh" "$root/configs/efa.yaml" --instance p5en.48xlarge --image r/moe-rl-bench:1 \
    --results "$work/results" "$@" >"$work/out" 2>"$work/err" || code=$?
  [ $code -eq "$expected" ] || failed "exit code $code instead of $expected"
}

failed() {
  echo "FAILED: $1"
  cat "$work/out" "$work/err" "$STATE/calls" 2>/dev/null || true
  exit 1
}
says() { grep -q -- "$1" "$work/out" "$work/err" || failed "it does not say: $1"; }
is_there() { [ -e "$1" ] || failed "there is no $1"; }
is_absent() { [ ! -e "$1" ] || failed "there is $1"; }

begin "a dry run prints the manifest and does not ask the cluster"
launch 0 --dry-run
says "kind: MPIJob"
is_absent "$STATE/calls"
"$MRB_BINARY" manifest check --strict "$work/out" >/dev/null || failed "the manifest has faults"

begin "a run: the log is shown without the results, they are fetched, and the job is deleted"
launch 0
says "tokens/s 11247"
if grep -q "results begin" "$work/out"; then failed "the packed results are shown"; fi
cmp "$work/made/run-1/result.json" "$work/results/run-1/result.json"
is_there "$STATE/deleted"

begin "the same command again attaches to the job that is there"
touch "$STATE/applied"
launch 0
says "attaching"
if grep -q " apply " "$STATE/calls"; then failed "it was applied again"; fi

begin "the exit code is that of the run, whose results are fetched all the same"
echo 7 >"$STATE/exit_code"
printf '%s\n' Running Failed >"$STATE/phases"
launch 7
is_there "$work/results/run-1/result.json"

begin "a connection that breaks is taken up again until the pod has ended"
printf '%s\n' Pending Running Running Running Running Succeeded >"$STATE/phases"
launch 0
[ "$(grep -c -- '--follow' "$STATE/calls")" -gt 1 ] || failed "the log was followed once"
is_there "$work/results/run-1/result.json"

begin "a job that never starts: a limit, the cluster's reason, and nothing is left behind"
echo Pending >"$STATE/phases"
launch 6 --wait 0
says "Insufficient vpc.amazonaws.com/efa"
is_there "$STATE/deleted"

begin "results that are cut short or changed are refused, and the job is kept"
sed -i '/^=== results begin/{n;d}' "$STATE/log"  # a line is lost
launch 5
says "is kept"
is_absent "$STATE/deleted"
is_absent "$work/results/run-1"

begin "a run that failed before it had results says so with its own exit code"
echo "error: no EFA" >"$STATE/log"
echo 5 >"$STATE/exit_code"
launch 5
says "exit code of the run: 5"

begin "--keep leaves the job"
launch 0 --keep
is_absent "$STATE/deleted"

begin "bad usage and bad configurations are refused before the cluster is asked"
launch 2 --wait soon
launch 2 --results
launch 2 --nodes 0
launch 2 -o job.yaml
is_absent "$STATE/calls"

begin "a signal ends it at once; the job goes on, and how to end it is said"
touch "$STATE/hangs"
echo Running >"$STATE/phases"
"$root/scripts/eks/launch.sh" "$root/configs/efa.yaml" --instance p5en.48xlarge --image r/moe-rl-bench:1 >"$work/out" 2>"$work/err" &
pid=$!
for _ in $(seq 100); do grep -qs -- --follow "$STATE/calls" && break; sleep 0.1; done
kill -TERM $pid
code=0
wait $pid || code=$?
[ $code -eq 130 ] || failed "exit code $code instead of 130"
says "delete mpijob,configmap"
is_absent "$STATE/deleted"

# The launcher of the image. ssh runs the command here; a host called dead- never answers.
cat >"$work/bin/ssh" <<'SSH'
#!/usr/bin/env bash
while [ "$1" = -o ]; do shift 2; done
case $1 in dead-*) exit 255 ;; esac
shift
exec sh -c "$*"
SSH
cat >"$work/bin/mpirun" <<'MPIRUN'
#!/usr/bin/env bash
trap 'echo "ended by a signal"; echo partial >"$MRB_RESULTS/result.json"; exit 7' TERM
echo "mpirun $*"
[ "$1" = hang ] && { touch "$STATE/started"; sleep 60 & wait; }
echo whole >"$MRB_RESULTS/result.json"
exit "$1"
MPIRUN
chmod +x "$work/bin/ssh" "$work/bin/mpirun"
export MRB_HOSTFILE="$work/hostfile" MRB_RESULTS="$work/node/results" MRB_SSH_WAIT_S=2
mkdir -p "$MRB_RESULTS"
launcher="$root/scripts/eks/image/moe-rl-bench-launcher"

run_launcher() {
  local expected=$1 code=0
  shift
  timeout 60 "$launcher" "$@" >"$work/out" 2>"$work/err" || code=$?
  [ $code -eq "$expected" ] || failed "exit code $code instead of $expected"
}
unpacked() {
  sed -n '/^=== results begin /,/^=== results end$/{/^===/d;p}' "$work/out" | base64 --decode | tar -xzO ./result.json
}

begin "the image's launcher sends what rank 0 has, with mpirun's exit code"
printf '%s\n' "job-worker-0.job.ns.svc slots=8" "job-worker-1.job.ns.svc slots=8" >"$MRB_HOSTFILE"
run_launcher 4 --limit 30 -- mpirun 4
[ "$(unpacked)" = whole ] || failed "the results are not whole"

begin "at the limit ranks are told to end, and what they have is sent"
run_launcher 6 --limit 1 -- mpirun hang
says "raise --limit"
[ "$(unpacked)" = partial ] || failed "no partial results"

begin "so when the pod is ended, as at the end of a capacity block"
"$launcher" --limit 30 -- mpirun hang >"$work/out" 2>"$work/err" &
pid=$!
for _ in $(seq 100); do [ -e "$STATE/started" ] && break; sleep 0.1; done
kill -TERM $pid
code=0
wait $pid || code=$?
[ $code -ne 0 ] || failed "it ended with 0"
[ "$(unpacked)" = partial ] || failed "no partial results"

begin "a worker that is dead is named, after a limit"
echo "dead-worker-1.job.ns.svc slots=8" >>"$MRB_HOSTFILE"
run_launcher 5 --limit 30 -- mpirun 0
says "sshd of dead-worker-1"

begin "a launcher that is a worker is not asked by ssh"
printf '%s\n' "$(hostname).job.ns.svc slots=8" >"$MRB_HOSTFILE"
printf '#!/bin/sh\nexit 255\n' >"$work/bin/ssh"
run_launcher 0 --limit 30 -- mpirun 0
[ "$(unpacked)" = whole ] || failed "the results are not whole"
run_launcher 2 --limit 30 mpirun

printf '\nall passed\n'
