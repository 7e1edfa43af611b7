#!/usr/bin/env bash
# Fuzzes the readers of result.json and of YAML with libFuzzer under the address and undefined-behaviour sanitizers:
#   tests/fuzz/fuzz.sh [SECONDS]     (600 when not given; both at once; needs clang with libFuzzer)
# Seeds: the configurations in configs/, and result.json of the runs in results/ of the current folder.
set -euo pipefail
seconds=${1:-600}
root=$(cd "$(dirname "$0")/../.." && pwd)
work=${FUZZ_DIR:-$root/build/fuzz}
mkdir -p "$work/config_corpus" "$work/result_corpus"
cp -n "$root"/configs/*.yaml "$work/config_corpus/"
for result in results/*/result.json; do
  [ -f "$result" ] && cp -n "$result" "$work/result_corpus/$(basename "$(dirname "$result")").json"
done

compile() { # NAME SOURCES...
  local name=$1
  shift
  clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -I"$root/src" \
    "$root/tests/fuzz/$name.cpp" "$@" -lfmt -lyaml-cpp -o "$work/$name"
}
compile result_fuzz "$root"/src/report/stored_run.cpp "$root"/src/stats/summary.cpp "$root"/src/base/units.cpp
compile config_fuzz "$root"/src/config/*.cpp "$root"/src/base/units.cpp

status=0
for name in result config; do
  "$work/${name}_fuzz" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$work/$name-" "$work/${name}_corpus" >"$work/$name.log" 2>&1 &
done
for job in $(jobs -p); do wait "$job" || status=1; done
for name in result config; do
  echo "$name: $(grep -c "^SUMMARY" "$work/$name.log" || true) reports"
  grep "^stat::number_of_executed_units\|^Done\|^SUMMARY" "$work/$name.log" || true
done
exit $status
