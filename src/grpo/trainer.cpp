#include "grpo/trainer.hpp"

#include <utility>

#include "grpo/rollout.hpp"

namespace mrb {

Trainer::Trainer(const Config& config, LearnerParts parts)
    : config_(config), parts_(parts), collectives_(parts.channel), learner_(config_, parts) {}

StepResult Trainer::run_step(int step) {
  parts_.phases.begin_step();
  auto answers = roll_out(config_, step, step, collectives_, parts_.channel.rank(), parts_.channel.size(),
                          {learner_.policy(), parts_.compute, parts_.phases});
  StepResult result = learner_.learn(step, std::move(answers));
  result.times = parts_.phases.end_step();
  return result;
}

}  // namespace mrb
