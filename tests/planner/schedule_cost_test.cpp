#include "planner/schedule_cost.hpp"

#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

// 4800 GPU-seconds of rollout and 1600 of training, under ideal scaling.
double one_step_off_s(int rollout_gpus, int train_gpus) {
  return step_s(Schedule::one_step_off, 0, {.rollout_s = 4800.0 / rollout_gpus, .train_s = 1600.0 / train_gpus});
}

}  // namespace

TEST_CASE("64 GPUs are best split as the work is", "[planner]") {
  CHECK(one_step_off_s(48, 16) == Approx(100));
  CHECK(one_step_off_s(40, 24) == Approx(120));
  CHECK(one_step_off_s(56, 8) == Approx(200));
  CHECK(one_step_off_s(32, 32) == Approx(150));
}

TEST_CASE("the closed form has the simulation's period where nothing varies", "[planner]") {
  const PhaseTimes times{
      .rollout_s = 10, .rollout_sustained_s = 10, .longest_answer_s = 10, .train_s = 6, .sync_s = 1, .switch_s = 2};
  for (const Schedule schedule : {Schedule::colocated, Schedule::disaggregated, Schedule::one_step_off}) {
    const PipelineResult result = simulate(
        {.schedule = schedule, .steps = 20, .train_s = 6, .sync_s = 1, .switch_s = 2, .sample_s = [](std::int64_t) {
           return 10.0;
         }});
    CHECK(step_s(schedule, 0, times) == Approx(result.step_end_s[15] - result.step_end_s[14]));
  }
}

TEST_CASE("more staleness never costs, and without any async waits like disaggregated", "[planner]") {
  const PhaseTimes tail{.rollout_s = 60, .rollout_sustained_s = 12, .longest_answer_s = 50, .train_s = 10, .sync_s = 1};
  CHECK(step_s(Schedule::async, 0, tail) == step_s(Schedule::disaggregated, 0, tail));
  CHECK(step_s(Schedule::async, 1, tail) == Approx(25.5));
  CHECK(step_s(Schedule::async, 2, tail) == Approx(17));
  CHECK(step_s(Schedule::async, 8, tail) == Approx(13));
  // Slots kept full make every answer slow: then it is better to let them run empty.
  const PhaseTimes crowded{.rollout_s = 20, .rollout_sustained_s = 12, .longest_answer_s = 90, .train_s = 10};
  CHECK(step_s(Schedule::async, 1, crowded) == step_s(Schedule::one_step_off, 0, crowded));
}
