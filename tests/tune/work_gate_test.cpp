#include "tune/work_gate.hpp"

#include <cmath>

#include "support/catch.hpp"

using namespace mrb;
using mrb::test::contains;

namespace {

std::vector<Experiment> three() {
  std::vector<Experiment> experiments(3);
  for (Experiment& experiment : experiments) experiment.workload_id = "w";
  return experiments;
}

const std::vector<StepWork> kWork = {{1.0, -2.0}, {0.9, -2.1}}, kRounded = {{1.00001, -2.0}, {0.9, -2.1}},
                            kOther = {{1.0, -2.0}, {0.8, -2.1}};

}  // namespace

TEST_CASE("work that differs by more than rounding is seen, whichever launch comes first", "[tune]") {
  WorkGate gate(three());
  gate.see({.candidate = 1, .seed = 7}, kOther);
  CHECK(gate.difference(1).empty());  // nothing to compare with yet
  gate.see({.candidate = 0, .seed = 7}, kWork);
  CHECK_THAT(gate.difference(1), contains("step 1 has loss 0.8") && contains("the baseline 0.9"));
  gate.see({.candidate = 2, .seed = 7}, kRounded);
  CHECK(gate.difference(2).empty());
  gate.see({.candidate = 2, .seed = 8}, kOther);  // another seed, another work
  CHECK(gate.difference(2).empty());
  gate.see({.candidate = 0, .seed = 8}, {{1.0, -2.0}, {std::nan(""), -2.1}});
  CHECK_FALSE(gate.difference(2).empty());  // NaN is no agreement
  CHECK(gate.difference(0).empty());
}

TEST_CASE("candidates that round otherwise or train on older weights are not judged by losses", "[tune]") {
  std::vector<Experiment> experiments = three();
  experiments[1].workload_id = "rounded";
  experiments[2].config.schedule.name = "one_step_off";
  WorkGate gate(experiments);
  for (const int candidate : {0, 1, 2}) gate.see({.candidate = candidate, .seed = 7}, candidate == 0 ? kWork : kOther);
  CHECK(gate.difference(1).empty());
  CHECK(gate.difference(2).empty());
}
