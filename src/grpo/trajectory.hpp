// One answer and what is known of it.
#pragma once

#include <cstdint>
#include <vector>

namespace mrb {

struct Trajectory {
  int step = 0;
  int sequence = 0;  // among all answers of the step
  int longest = 0;
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> answer;  // with its end token, if it came to that
  int first_version = 0;             // of the weights that gave its first token: how many updates they had seen
  double reward = 0;
  double advantage = 0;
  std::vector<float> rollout_log_probs;    // by answer token, like the two below
  std::vector<float> old_log_probs;        // of the policy before the update
  std::vector<float> reference_log_probs;  // of the initial policy; empty when kl_coef is 0
};

struct PromptRange {
  int first = 0;
  int end = 0;

  int count() const { return end - first; }
};

// Prompts in contiguous parts, as even as can be; some ranks get none when there are fewer prompts than ranks.
PromptRange prompts_of_rank(int prompts, int rank, int ranks);

}  // namespace mrb
