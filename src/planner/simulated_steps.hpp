// Steps with answers of drawn lengths: how much steps differ, and how old what is trained really is.
#pragma once

#include <cstdint>

#include "planner/search.hpp"

namespace mrb {

struct SimulatedSteps {
  int steps = 0;  // counted, after the first ones
  double step_s_mean = 0;
  double step_s_p50 = 0;
  double step_s_p95 = 0;
  double staleness_mean = 0;
  int staleness_max = 0;
  double train_idle_ratio = 0;
  std::int64_t events = 0;
};

// Answers to one prompt have correlated lengths. Each engine gets the same number of them, in turn; synchronous schedules
// wait for the slowest engine, asynchronous ones refill every slot at once, and answers advance at the pace that as many at once have. The same seed gives the same steps.
SimulatedSteps simulate_steps(const Candidate&, const Workload&, int steps, std::uint64_t seed);

}  // namespace mrb
