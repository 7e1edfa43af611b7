#!/usr/bin/env bash
# Runs a configuration as an MPIJob and brings the results home: renders, checks, applies, waits (with a limit), shows
# the log, fetches the results out of it, and cleans up.
#
#   scripts/eks/launch.sh CONFIG.yaml --instance p5en.48xlarge --image REGISTRY/moe-rl-bench:0.1.0 --nodes 2
#
#   --dry-run        print the manifest and end; the cluster is not asked
#   --results DIR    where results go (results)
#   --wait MINUTES   longest wait for nodes and images, until the launcher runs (30)
#   --keep           leave the job in the cluster
#   all others       are those of `moe-rl-bench manifest render`
#
# The same command given again finds its job again: it attaches to the one that runs, or fetches what has ended.
# Exit code: that of the run; 2 bad usage, 5 the cluster or the results fail, 6 a wait has reached its limit.
set -euo pipefail

readonly LOG_LIMIT_S=1800  # beyond --limit: images, sshd, and results

fail() {
  printf 'error: %s\n  fix: %s\n' "$2" "$3" >&2
  exit "$1"
}
say() { printf '== %s\n' "$*" >&2; }

find_binary() {
  local candidate
  for candidate in "${MRB_BINARY:-}" "$(dirname "$0")/../../build/release/moe-rl-bench" "$(command -v moe-rl-bench || true)"; do
    [ -n "$candidate" ] && [ -x "$candidate" ] && { printf '%s' "$candidate"; return; }
  done
  fail 5 "there is no moe-rl-bench here" "build it with ./scripts/quickstart.sh, or set MRB_BINARY to its path"
}

seconds_of() {
  case $1 in
    *h) echo $((${1%h} * 3600)) ;;
    *m) echo $((${1%m} * 60)) ;;
    *) echo "${1%s}" ;;
  esac
}

dry_run=no keep=no results=results wait_minutes=30 limit=60m namespace=default name=""
render=()
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
      exit 0
      ;;
    --dry-run) dry_run=yes && shift ;;
    --keep) keep=yes && shift ;;
    --results | --wait | --name | --namespace | --limit)
      [ $# -gt 1 ] || fail 2 "$1 needs a value" "see $0 --help"
      case $1 in
        --results) results=$2 ;;
        --wait) wait_minutes=$2 ;;
        --name) name=$2 ;;
        --namespace) namespace=$2 && render+=("$1" "$2") ;;
        --limit) limit=$2 && render+=("$1" "$2") ;;
      esac
      shift 2
      ;;
    -o | --output | --output=*) fail 2 "$1 is not for launch.sh" "use --dry-run > job.yaml, or moe-rl-bench manifest render" ;;
    *) render+=("$1") && shift ;;
  esac
done
[[ $wait_minutes =~ ^[0-9]+$ ]] || fail 2 "--wait is '$wait_minutes'" "give whole minutes"

binary=$(find_binary)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
manifest=$work/job.yaml

# Without a name of its own the job is called after what it is, so that the same question finds it again.
if [ -z "$name" ]; then
  "$binary" manifest render "${render[@]}" --name moe-rl-bench -o "$manifest"
  name=moe-rl-bench-$(sha256sum <"$manifest" | cut -c1-8)
fi
"$binary" manifest render "${render[@]}" --name "$name" -o "$manifest"
"$binary" manifest check --strict "$manifest" >&2 || fail 2 "the manifest has faults" "see above"

if [ $dry_run = yes ]; then
  cat "$manifest"
  exit 0
fi
command -v kubectl >/dev/null || fail 5 "there is no kubectl here" "install it, and check it with kubectl get nodes"

kube() { kubectl --namespace "$namespace" --request-timeout=30s "$@"; }

# The launcher is a Job of Kubernetes, which labels its pod.
pod_field() {
  kube get pods --selector "job-name=$name-launcher" --output "jsonpath={.items[0].$1}" 2>/dev/null || true
}
phase() { pod_field status.phase; }
has_ended() { [[ $(phase) =~ ^(Succeeded|Failed)$ ]]; }

clean_up() {
  if [ $keep = yes ]; then
    say "kept: kubectl -n $namespace delete mpijob,configmap $name"
  else
    kube delete --filename "$manifest" --ignore-not-found --wait=false >&2 ||
      say "the job could not be deleted: kubectl -n $namespace delete mpijob,configmap $name"
  fi
}

# shellcheck disable=SC2317  # called by the trap
interrupted() {
  kill "$follower" 2>/dev/null || true
  say "interrupted; job $name goes on, and costs. The same command attaches to it; this ends it:"
  say "kubectl -n $namespace delete mpijob,configmap $name"
  exit 130
}
follower=""
trap interrupted INT TERM

start_job() {
  if kube get mpijob "$name" >/dev/null 2>&1; then
    say "job $name is there already: attaching to it"
    return
  fi
  kube apply --filename "$manifest" >&2 ||
    fail 5 "the job could not be applied" "see above; without the MPI operator there is no MPIJob (README.md, step 3)"
  say "job $name is applied"
}

wait_for_launcher() {
  local -r give_up=$((SECONDS + wait_minutes * 60))
  until [[ $(phase) =~ ^(Running|Succeeded|Failed)$ ]]; do
    if [ $SECONDS -ge $give_up ]; then
      kube get pods --selector "app.kubernetes.io/instance=$name" >&2 || true
      kube get events --sort-by=.lastTimestamp 2>/dev/null | grep "$name" | tail -n 10 >&2 || true
      clean_up
      fail 6 "the launcher of $name does not run after $wait_minutes minutes" \
        "read the events above: no node fits, a queue holds it, or the operator refuses it without a word (README.md, symptoms)"
    fi
    sleep "${MRB_POLL_S:-5}"
  done
}

# All but what is for us: the results, between their marks.
show() { sed -u '/^=== results begin /,/^=== results end$/d'; }

show_log() {
  local -r give_up=$((SECONDS + $(seconds_of "$limit") + LOG_LIMIT_S))
  local since=()
  while true; do
    # In the background, so that a signal is heard while it runs.
    timeout $((give_up - SECONDS)) kubectl --namespace "$namespace" logs --follow "${since[@]}" "job/$name-launcher" \
      > >(show) &
    follower=$!
    wait $follower || true
    has_ended && return
    [ $SECONDS -lt $give_up ] || fail 6 "job $name has not ended within its limit" "kubectl -n $namespace describe mpijob $name"
    sleep "${MRB_POLL_S:-5}"
    since=(--since=10s)  # the connection broke: some lines may come twice, none is lost
  done
}

fetch_results() {
  kube logs "job/$name-launcher" >"$work/log" || return 1
  local -r begin=$(grep -n '^=== results begin ' "$work/log" | tail -n 1)
  [ -n "$begin" ] || return 1
  sed -n "$((${begin%%:*} + 1)),/^=== results end\$/{/^===/d;p}" "$work/log" | base64 --decode >"$work/results.tar.gz" || return 1
  [ "$(sha256sum <"$work/results.tar.gz" | cut -d' ' -f1)" = "${begin##* }" ] || return 1
  mkdir -p "$results"
  tar -C "$results" -xzf "$work/results.tar.gz"
  say "results are in $results: $(tar -tzf "$work/results.tar.gz" | grep -vc '/$') files"
}

start_job
wait_for_launcher
show_log
code=$(pod_field 'status.containerStatuses[0].state.terminated.exitCode')
if ! fetch_results; then
  say "job $name is kept: kubectl -n $namespace logs job/$name-launcher"
  [[ $code =~ ^[1-9][0-9]*$ ]] || code=5
  fail "$code" "the results are not in the launcher's log (exit code of the run: ${code})" \
    "read the log: the run may have failed before it had any; then delete the job: kubectl -n $namespace delete mpijob,configmap $name"
fi
clean_up
[[ $code =~ ^[0-9]+$ ]] || fail 5 "the exit code of the run is not known" "kubectl -n $namespace describe job $name-launcher"
exit "$code"
