// How answers become batches: which answers an optimiser step trains on, and how they are packed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grpo/rollout.hpp"
#include "model/policy.hpp"

namespace mrb {

// The answers of each optimiser step of one epoch: `minibatches` parts of a seeded shuffle of all the step's answers.
// A function of its arguments alone, so every rank knows all of it.
std::vector<std::vector<int>> draw_minibatches(std::uint64_t seed, int step, int epoch, int sequences, int minibatches);

// Some answers, packed: each is its prompt and its answer but for the last token, scored at the answer's tokens.
struct MicroBatch {
  std::vector<const Trajectory*> answers;
  PackedTokens packed;
  ScoredTokens scored;  // all tokens of the first answer, then of the second, ...
};

// Packs answers in order, each micro-batch up to `tokens_max` tokens; an answer longer than that gets its own.
std::vector<MicroBatch> pack(std::span<const Trajectory* const> answers, int tokens_max);

}  // namespace mrb
