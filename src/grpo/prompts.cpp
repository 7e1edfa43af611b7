#include "grpo/prompts.hpp"

#include "base/random.hpp"
#include "grpo/reward.hpp"

namespace mrb {

namespace {

std::uint64_t key(int value) {
  return static_cast<std::uint64_t>(value);
}

}  // namespace

std::vector<std::int32_t> draw_prompt(std::uint64_t seed, int step, int prompt, const GrpoConfig& config, int vocab) {
  Random random({seed, Random::prompts, key(step), key(prompt)});
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(config.prompt_tokens));
  for (auto& token : tokens) token = 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab - 1)));
  tokens.back() = 1 + static_cast<std::int32_t>(random.below(kRewardClasses));
  return tokens;
}

double draw_uniform(const SequenceId& id, int position) {
  return Random({id.seed, Random::sampling, key(id.step), key(id.sequence), key(position)}).uniform();
}

}  // namespace mrb
