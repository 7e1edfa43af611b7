#!/usr/bin/env bash
# How fast is one training step of `small` on one thread, and how much memory does it take, next to torch?
# Runs torch (A) and train_step_benchmark (B) in the order A B B A, BLOCKS times, in f32 and in bf16 (torch stays in
# f32), and prints the ratio of each block: its median, smallest and largest. Both measure processor time, of one thread
# each, so that neighbours disturb little; a quiet machine is still better. Needs Debian's python3-torch.
#
#   tests/benchmarks/train_step.sh [BLOCKS [STEPS]]
set -euo pipefail
cd "$(dirname "$0")/../.."
blocks=${1:-3} steps=${2:-8}

cmake --preset release >/dev/null
cmake --build build/release --target train_step_benchmark >/dev/null
ours=build/release/tests/benchmarks/train_step_benchmark

# Both are often set to make OpenBLAS choose the same kernels on every machine; here they would slow torch down.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

samples=$(mktemp) words=$(mktemp)
trap 'rm -f "$samples" "$words"' EXIT
measure() {  # WHOSE DTYPE
  local command=("$ours" "$2" "$steps") numbers status=0
  if [ "$1" = torch ]; then command=(/usr/bin/python3 tests/benchmarks/train_step.py "$steps"); fi
  numbers=$("${command[@]}" 2>"$words") || status=$?
  if [ "$status" -ne 0 ]; then  # a run that failed is no sample
    printf 'error: %s ended with status %s\n' "${command[*]}" "$status" >&2
    cat "$words" >&2
    exit 1
  fi
  echo "$2 $1 $numbers" | tee -a "$samples"
}

echo "products, whose, tokens per second, peak bytes:"
for ((block = 0; block < blocks; ++block)); do
  for dtype in f32 bf16; do
    for what in torch ours ours torch; do measure "$what" "$dtype"; done
  done
done

/usr/bin/python3 - "$samples" <<'SUMMARY'
import collections, statistics, sys
speed, memory = collections.defaultdict(list), collections.defaultdict(list)
for line in open(sys.argv[1]):
    dtype, whose, tokens_per_s, peak_bytes = line.split()
    speed[dtype, whose].append(float(tokens_per_s))
    memory[dtype, whose].append(float(peak_bytes))
for dtype in "f32", "bf16":
    # Two runs of each make a block.
    pairs = list(zip(*[iter(zip(speed[dtype, "ours"], speed[dtype, "torch"]))] * 2))
    ratios = sorted((a[0] + b[0]) / (a[1] + b[1]) for a, b in pairs)
    peak = {whose: max(memory[dtype, whose]) / 1e9 for whose in ("ours", "torch")}
    print(f"{dtype}: {statistics.median(ratios):.2f}x torch's tokens per second ({ratios[0]:.2f} to {ratios[-1]:.2f}), "
          f"peak memory {peak['ours']:.2f} against {peak['torch']:.2f} GB")
SUMMARY
