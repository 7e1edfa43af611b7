#include "grpo/reward.hpp"

#include <algorithm>

#include "grpo/prompts.hpp"

namespace mrb {

double class_reward(std::span<const std::int32_t> prompt, std::span<const std::int32_t> answer, int longest) {
  const std::int32_t wanted = prompt.back() % kRewardClasses;
  const auto hits = std::count_if(answer.begin(), answer.end(), [&](std::int32_t token) {
    return token != kEndToken && token % kRewardClasses == wanted;
  });
  return static_cast<double>(hits) / longest;
}

double overlong_penalty(int length, int length_max, int overlong_tokens) {
  if (overlong_tokens == 0) return 0;
  const int free = length_max - overlong_tokens;
  return -static_cast<double>(std::clamp(length - free, 0, overlong_tokens)) / overlong_tokens;
}

}  // namespace mrb
