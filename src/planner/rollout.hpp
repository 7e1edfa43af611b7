// How long a batch of answers takes to generate, tail included.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/instance.hpp"
#include "planner/lengths.hpp"
#include "planner/model_cost.hpp"

namespace mrb {

// What is worked out once from the distribution of lengths.
struct LengthProfile {
  std::vector<double> quantiles;  // ascending, each standing for an equal share of the answers
  double mean_tokens = 0;
  double resident_tokens = 0;  // mean of what a slot holds when it is refilled at once: E[L^2] / (2 E[L])
  double longest_tokens = 0;   // expected longest of the batch
};

LengthProfile length_profile(const LengthDistribution&, int answers);

struct RolloutBatch {
  int answers = 0;
  int group_size = 1;
  double prompt_tokens = 0;  // computed once for the group's answers, which share its keys and values
};

// All times as one engine sees them; engines are alike, but one of them has the longest answer of all.
struct RolloutCost {
  double seconds = 0;      // until the last answer
  double sustained_s = 0;  // a batch takes so long when slots are refilled from the next one: no tail
  double longest_s = 0;    // of the longest answer, among full slots
  double token_s = 0;      // of one decode step with full slots
  double slots = 0;  // of one engine: the answers that its memory holds, or its share of the batch if that is less
  double slots_by_memory = 0;
  double kv_gbyte = 0;         // of one GPU, for keys and values
  double weight_gbyte = 0;     // of one GPU
  DecodeCost decode;           // of one engine
  double prefill_s = 0;        // part of `seconds`
  double resident_tokens = 0;  // of an answer in a slot, mean
  double tail_ratio = 0;       // of `seconds`, while less than half of the slots are busy
};

// `gpus` in engines of `engine_gpus`. Nothing when the weights leave no room for one answer.
//
// Assumed, not fitted: 80% of the memory bandwidth and 60% of the peak are reached, 90% of the memory is used, and a
// layer's two exchanges between the GPUs of an engine add 10 us each, or the instance's latency between nodes.
std::optional<RolloutCost> rollout_cost(const ModelShape&, const RolloutBatch&, const LengthProfile&, const Instance&,
                                        int gpus, int engine_gpus);

}  // namespace mrb
