#include "planner/rl_steps.hpp"

#include "planner/inputs.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

const RlValidation& validation() {
  static const RlValidation all = [] {
    const auto instances = read_instances(kConfigs + "/instances");
    return predict_rl_steps(published_rows(), instances, calibrate(read_published(published_rows(), instances)));
  }();
  return all;
}

}  // namespace

TEST_CASE("every published whole step fits by our account of memory, as it did where it was measured", "[planner]") {
  REQUIRE(validation().steps.size() == 7);
  for (const RlStep& step : validation().steps) {
    INFO(step.what);
    CHECK(step.predicted_s > 0);
  }
}

TEST_CASE("speed-ups of schedules are within a fifth of those published", "[planner]") {
  REQUIRE(validation().speed_ups.size() == 2);
  for (const SpeedUp& one : validation().speed_ups) {
    INFO(one.what);
    CHECK(one.predicted_ratio == Approx(one.measured_ratio).epsilon(.2));
  }
}

TEST_CASE("rows that do not name their split are left out", "[planner]") {
  CsvRow row = {{"id", "x-1"},  {"op", "rl_step"}, {"instance", "non-aws:DGX-H100"},
                {"gpus", "64"}, {"value", "100"},  {"notes", "Qwen3-30B-A3B;GRPO"}};
  CHECK(predict_rl_steps({row}, read_instances(kConfigs + "/instances"), {}).steps.empty());
}
