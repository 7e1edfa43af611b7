#!/usr/bin/env bash
# Does a tuning that is killed again and again end like one that is left alone?
#   tests/benchmarks/tune_kills.sh [BINARY] [KILLS] [SEED]
# 24 candidates on one rank, of which those that sleep less are faster. SIGKILL at random moments, then --resume. Exits 1
# when a line of the journal is lost or measured twice, or when the answer is another.
set -eu
binary=$(realpath "${1:-build/release/moe-rl-bench}") kills=${2:-20} seed=${3:-1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
space=(--set model.layers=1 --set model.hidden=16 --set model.heads=2 --set model.kv_heads=1 --set model.head_dim=8
  --set model.experts=4 --set model.expert_ff=16 --set model.vocab=16 --set grpo.prompts=2 --set grpo.group_size=2
  --set grpo.prompt_tokens=3 --set grpo.response_tokens_min=2 --set grpo.response_tokens_max=2
  --set measure.warmup_steps=0 --set measure.steps=1 --set compute.threads=1
  --dispatcher "alltoall,rank_dedup,allgather" --set "grpo.micro_batch_tokens=4,2048" --set "grpo.reward_delay_ms=60,40,20,80")

winner_of() { sed -n 's/.*"winner_name": "\(.*\)",/\1/p' "$1/tune.json" | sed 's/.*\(reward_delay_ms=[0-9]*\).*/\1/'; }

"$binary" tune "${space[@]}" --budget '60 launches' --output-dir alone >alone.out 2>/dev/null
"$binary" tune "${space[@]}" --budget '60 launches' --output-dir killed >/dev/null 2>&1 &
resume=""
done_kills=0
while :; do
  process=$!
  seed=$(((seed * 1103515245 + 12345) % 2147483648))
  sleep "$((seed / 65536 % 3)).$((seed / 1024 % 10))"
  if ! kill -KILL "$process" 2>/dev/null; then
    echo "it ended after $done_kills kills: give fewer" >&2
    exit 1
  fi
  wait "$process" 2>/dev/null || true
  done_kills=$((done_kills + 1))
  if [ -z "$resume" ]; then
    for folder in killed/*/; do [ -s "$folder/journal.jsonl" ] && resume=$folder; done
  fi
  lines=$(cat killed/*/journal.jsonl 2>/dev/null | wc -l)
  echo "kill $done_kills: $lines lines"
  [ "$done_kills" -lt "$kills" ] || break
  if [ -n "$resume" ]; then
    "$binary" tune --resume "$resume" >/dev/null 2>&1 &
  else
    rm -rf killed
    "$binary" tune "${space[@]}" --budget '60 launches' --output-dir killed >/dev/null 2>&1 &
  fi
done
"$binary" tune --resume "$resume" >killed.out 2>/dev/null || true
"$binary" tune --replay "$resume/journal.jsonl" >replayed.out

lines=$(($(wc -l <"$resume/journal.jsonl") - 1))
once=$(sed -n '2,$s/{"hash":"\([^"]*\)".*"block":\([0-9]*\),.*/\1 \2/p' "$resume/journal.jsonl" | sort -u | wc -l)
alone=$(winner_of alone/*) killed=$(winner_of "$resume")
echo "$done_kills kills; $lines launches, $once of them different; replay the same: $(cmp -s killed.out replayed.out && echo yes || echo no)"
echo "left alone: $alone; killed: $killed"
[ "$lines" -gt 0 ] && [ "$lines" = "$once" ] && cmp -s killed.out replayed.out && [ "$alone" = "$killed" ]
