// The generating half of a step.
#pragma once

#include <cstdint>
#include <vector>

#include "base/phase_clock.hpp"
#include "compute/backend.hpp"
#include "config/config.hpp"
#include "grpo/lengths.hpp"
#include "model/policy.hpp"
#include "transport/collectives.hpp"

namespace mrb {

// One answer and what is known of it.
struct Trajectory {
  int sequence = 0;  // among all answers of the step
  int longest = 0;
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> answer;  // with its end token, if it came to that
  double reward = 0;
  double advantage = 0;
  std::vector<float> rollout_log_probs;    // by answer token, like the two below
  std::vector<float> old_log_probs;        // of the policy before the update
  std::vector<float> reference_log_probs;  // of the initial policy; empty when kl_coef is 0
};

struct PromptRange {
  int first = 0;
  int end = 0;
};

// Prompts in contiguous parts, as even as can be; some ranks get none when there are fewer prompts than ranks.
PromptRange prompts_of_rank(int prompts, int rank, int ranks);

struct RolloutParts {
  Policy& policy;
  ComputeBackend& compute;
  Collectives& collectives;
  PhaseClock& phases;
  const ResponseLengths& lengths;
  int rank = 0;
  int ranks = 1;
};

// Collective. Answers this rank's prompts: each prompt runs once, its samples share it; then all unfinished answers
// grow by one token at a time until the end token or their longest length (lengths.hpp). Ranks that are done go on with
// no tokens until all are. Phases: prefill, decode.
std::vector<Trajectory> roll_out(const Config&, int step, RolloutParts);

}  // namespace mrb
