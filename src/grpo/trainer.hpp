// One step of GRPO, colocated: every rank generates, every rank trains.
#pragma once

#include "base/phase_clock.hpp"
#include "grpo/learner.hpp"
#include "transport/collectives.hpp"

namespace mrb {

class Trainer {
 public:
  // Builds the policy from the seed. The parts must outlive the trainer.
  Trainer(const Config&, LearnerParts);

  // Collective. Phases: mode_switch (the cache gets its memory), prefill, decode, reward, and those of Learner::learn().
  StepResult run_step(int step);

 private:
  Config config_;
  LearnerParts parts_;
  Collectives collectives_;
  Learner learner_;
};

}  // namespace mrb
