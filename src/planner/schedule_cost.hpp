// From the time of each phase to the time of a step, for each schedule.
#pragma once

#include "planner/pipeline.hpp"

namespace mrb {

struct PhaseTimes {
  double rollout_s = 0;            // a batch from its start to its last answer
  double rollout_sustained_s = 0;  // a batch when slots never run empty
  double longest_answer_s = 0;
  double train_s = 0;  // log-probabilities, forward, backward, update
  double sync_s = 0;
  double switch_s = 0;  // colocated only
};

// Seconds of a step in the steady state:
//   colocated      rollout + train + sync + switch
//   disaggregated  rollout + train + sync
//   one_step_off   max(rollout, train) + sync
//   async          max(sustained + sync, train + sync, (longest + sync) / (staleness + 1)), or one_step_off if less
// Async keeps its slots busy across batches, so the tail counts only through the longest answer, which has
// (staleness + 1) steps; it may also let slots run empty as one_step_off does, where that is faster. With staleness 0 nothing can start before the sync, so it is disaggregated.
double step_s(Schedule, int staleness, const PhaseTimes&);

}  // namespace mrb
