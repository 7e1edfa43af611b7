// The synthetic task: what is asked, and which random numbers it is sampled with. Both are functions of (seed, step,
// sequence), so any rank may draw any of them, and all variants do the same work.
#pragma once

#include <cstdint>
#include <vector>

#include "config/config.hpp"

namespace mrb {

constexpr std::int32_t kEndToken = 0;

// One answer among all of a step: answer `sequence % group_size` to prompt `sequence / group_size`.
struct SequenceId {
  std::uint64_t seed = 0;
  int step = 0;
  int sequence = 0;
};

// Random tokens other than the end token; the last is the key, one of tokens 1 to kRewardClasses (reward.hpp).
std::vector<std::int32_t> draw_prompt(std::uint64_t seed, int step, int prompt, const GrpoConfig&, int vocab);

// In [0, 1): decides which token is sampled at this position of the answer.
double draw_uniform(const SequenceId&, int position);

}  // namespace mrb
