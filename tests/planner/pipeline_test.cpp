// Closed formulas for deterministic times: with generation g, training t, sync s and switch x, K steps take
// K (g + t + s + x) colocated, K (g + t + s) disaggregated, and g + K s + (K - 1) max(g, t) + t one step off.
#include "planner/pipeline.hpp"

#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

Pipeline of(Schedule schedule, int steps) {
  return {
      .schedule = schedule, .steps = steps, .train_s = 6, .sync_s = 1, .sample_s = [](std::int64_t) { return 10.0; }};
}

}  // namespace

TEST_CASE("deterministic steps take exactly what the formulas say", "[planner]") {
  CHECK(simulate(of(Schedule::colocated, 3)).total_s == 51);
  CHECK(simulate(of(Schedule::disaggregated, 3)).total_s == 51);
  CHECK(simulate(of(Schedule::one_step_off, 3)).total_s == 39);
  Pipeline with_switch = of(Schedule::colocated, 3);
  with_switch.switch_s = 2;
  CHECK(simulate(with_switch).total_s == 57);
}

TEST_CASE("one step off has the period and the idle times of theory", "[planner]") {
  const PipelineResult result = simulate(of(Schedule::one_step_off, 50));
  const double period = result.step_end_s[40] - result.step_end_s[39];
  CHECK(period == 11);
  CHECK(1 - 6 / period == Approx(.4545).margin(1e-4));
  CHECK(1 - 10 / period == Approx(.0909).margin(1e-4));
}

TEST_CASE("a batch without refill lasts as long as its longest answer, with refill as list scheduling says",
          "[planner]") {
  Pipeline pipeline = of(Schedule::disaggregated, 1);
  pipeline.train_s = pipeline.sync_s = 0;
  pipeline.samples_per_step = 4;
  pipeline.sample_s = [](std::int64_t sample) { return sample == 0 ? 9.0 : 2.0; };
  pipeline.slots = 4;
  CHECK(simulate(pipeline).total_s == 9);
  pipeline.slots = 1;
  CHECK(simulate(pipeline).total_s == 15);
  pipeline.slots = 2;
  CHECK(simulate(pipeline).total_s == 9);
}

TEST_CASE("no answer is trained later than the staleness admitted, and more of it is never slower", "[planner]") {
  double before_s = 1e300;
  for (int eta = 0; eta <= 4; ++eta) {
    Pipeline pipeline = of(Schedule::async, 40);
    pipeline.samples_per_step = 8;
    pipeline.slots = 16;
    pipeline.staleness_max = eta;
    pipeline.sample_s = [](std::int64_t sample) { return sample % 8 == 3 ? 30.0 : 4.0; };
    const PipelineResult result = simulate(pipeline);
    CHECK(result.staleness_max <= eta);
    CHECK(result.total_s <= before_s);
    before_s = result.total_s;
  }
  CHECK(before_s < 0.5 * 40 * (30 + 6 + 1));  // the tail is hidden
}

TEST_CASE("async without staleness is disaggregated", "[planner]") {
  CHECK(simulate(of(Schedule::async, 3)).total_s == simulate(of(Schedule::disaggregated, 3)).total_s);
}

TEST_CASE("answers advance more slowly the more there are at once", "[planner]") {
  // 12 of 100 tokens and 4 of 400, where a token takes .010 + .0005 n: 100 t(16) + 300 t(4) = 5.4 s.
  Pipeline pipeline = of(Schedule::disaggregated, 1);
  pipeline.train_s = pipeline.sync_s = 0;
  pipeline.samples_per_step = pipeline.slots = 16;
  pipeline.sample_s = [](std::int64_t sample) { return sample < 12 ? 100.0 : 400.0; };
  pipeline.pace = [](int running) { return .010 + .0005 * running; };
  CHECK(simulate(pipeline).total_s == Approx(5.4));
}
