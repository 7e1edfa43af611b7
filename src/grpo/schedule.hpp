// Where and when the halves of a step run. Colocated, every rank does both, one after the other (trainer.hpp). Apart,
// both sides run at the same time, each on its own ranks, and this file is how they wait for each other:
//
//   generating ranks   answers to step s begin with weights of version s - staleness_max() at least
//   training ranks     step s begins when all its answers are there; it makes version s + 1
//
// disaggregated: staleness 0. one_step_off: exactly 1 (step 0 and 1 both have version 0). async: up to max_staleness,
// whatever is newest. The bound holds by admission: an answer that would be too old is not begun, and none is thrown away.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/phase_clock.hpp"
#include "compute/backend.hpp"
#include "config/config.hpp"
#include "config/roles.hpp"
#include "dispatch/dispatcher.hpp"
#include "grpo/learner.hpp"
#include "transport/channel.hpp"

namespace mrb {

// One step as one rank saw it. A rank that generates has only its times, from the end of one training step to the end
// of the next, as it heard of them.
struct RankStep {
  StepResult result;
  DispatchBytes dispatch;
  std::uint64_t answer_bytes = 0;  // sent by this rank to those that train
  std::uint64_t weight_bytes = 0;  // sent by this rank to those that generate
};

struct ScheduleParts {
  Channel& world;  // all ranks
  Channel& group;  // those that share this rank's experts; colocated, the same as `world`
  ComputeBackend& compute;
  Dispatcher& dispatcher;  // over `group`
  PhaseClock& phases;
};

class Schedule {
 public:
  virtual ~Schedule() = default;

  // Collective over all ranks. Runs steps 0 to `steps` - 1, or fewer, on all ranks alike, once `interrupted` is true on a
  // rank that trains. Phases: those of Learner::learn() on ranks that train and wait_rollouts, weight_send; those of
  // RolloutEngine on ranks that generate and wait_weights, weight_receive, answer_send.
  virtual std::vector<RankStep> run(int steps, const std::function<bool()>& interrupted) = 0;
};

// Collective over all ranks. Builds the policy from the seed. The configuration and the parts must outlive it.
std::unique_ptr<Schedule> make_schedule(const Config&, ScheduleParts);

// Phases in which a rank does nothing but wait for others.
bool is_idle_phase(const std::string& phase);

}  // namespace mrb
