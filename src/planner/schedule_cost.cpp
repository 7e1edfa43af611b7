#include "planner/schedule_cost.hpp"

#include <algorithm>

namespace mrb {

double step_s(Schedule schedule, int staleness, const PhaseTimes& t) {
  switch (schedule) {
    case Schedule::colocated:
      return t.rollout_s + t.train_s + t.sync_s + t.switch_s;
    case Schedule::disaggregated:
      break;
    case Schedule::one_step_off:
      return std::max(t.rollout_s, t.train_s) + t.sync_s;
    case Schedule::async:
      if (staleness == 0) break;
      return std::min(step_s(Schedule::one_step_off, 0, t),
                      std::max({t.rollout_sustained_s + t.sync_s, t.train_s + t.sync_s,
                                (t.longest_answer_s + t.sync_s) / (staleness + 1)}));
  }
  return t.rollout_s + t.train_s + t.sync_s;
}

}  // namespace mrb
