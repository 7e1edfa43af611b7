// The published figures are the judge; what is asserted is what would catch a broken model, not how good it is today.
#include "planner/validation.hpp"

#include <algorithm>
#include <set>

#include "planner/inputs.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

const Published& published() {
  static const Published all =
      read_published(read_csv(kConfigs + "/calibration/published_comm.csv"), read_instances(kConfigs + "/instances"));
  return all;
}

const ValidationLine& line_of(const Validation& validation, const std::string& operation, const std::string& regime) {
  return *std::find_if(validation.lines.begin(), validation.lines.end(), [&](const ValidationLine& line) {
    return line.operation == operation && line.regime == regime;
  });
}

// Two campaigns of one operation, where the second takes `factor` times as long as the physics of the first say.
Published two_campaigns(double factor) {
  Published all;
  for (int i = 1; i <= 8; ++i) {
    for (const auto& [campaign, times] : {std::pair{"one", 1.0}, std::pair{"two", factor}}) {
      all.observations.push_back({.id = std::string(campaign) + "-" + std::to_string(i),
                                  .campaign = campaign,
                                  .operation = "collective",
                                  .regime = "alltoall",
                                  .sample = {.measured_s = times * i, .physical_s = {0, 0, double(i), 0, 0}}});
    }
  }
  return all;
}

}  // namespace

TEST_CASE("every published operation is predicted, each figure once", "[planner]") {
  std::set<std::string> ids;
  for (const Observation& one : published().observations) {
    CHECK(ids.insert(one.id).second);
    CHECK(one.sample.measured_s > 0);
    CHECK(one.sample.physical_s.size() == cost_terms(one.operation).size());
  }
  CHECK(ids.size() > 450);
}

TEST_CASE("the published bandwidth of an all-to-all becomes its time", "[planner]") {
  // nccl-tests: busbw = bytes (n - 1) / n / time, so 16 ranks at 1 GiB and 179.5 GB/s take 5.608 ms.
  const std::vector<CsvRow> rows = {{{"id", "x-1"},
                                     {"instance", "p6-b300.48xlarge"},
                                     {"gpus", "16"},
                                     {"backend", "nccl"},
                                     {"op", "alltoall"},
                                     {"kernel_mode", ""},
                                     {"tokens_per_rank", ""},
                                     {"dtype", ""},
                                     {"metric", "busbw"},
                                     {"value", "179.5"},
                                     {"unit", "GB/s"},
                                     {"notes", "size_MiB=1024"}}};
  const Published one = read_published(rows, read_instances(kConfigs + "/instances"));
  REQUIRE(one.observations.size() == 1);
  CHECK(one.observations[0].sample.measured_s * 1e3 == Approx(5.6079).epsilon(1e-4));
}

TEST_CASE("a campaign is judged by a fit that has not seen it", "[planner]") {
  const Validation validation = validate(two_campaigns(2), FitChoice::by_campaign);
  REQUIRE(validation.lines.size() == 1);
  // The first is predicted twice too long (100%), the second half too short (50%).
  CHECK(validation.lines[0].mean_error_ratio == Approx(.75).epsilon(1e-3));
  CHECK(validation.lines[0].worst_error_ratio == Approx(1).epsilon(1e-3));
}

TEST_CASE("without a fit the physics at line rate stands alone", "[planner]") {
  const Validation validation = validate(two_campaigns(2), FitChoice::none);
  CHECK(validation.lines[0].mean_error_ratio == Approx(.25));  // right, and half
}

TEST_CASE("learning from other campaigns is better than physics alone", "[planner]") {
  const Validation fitted = validate(published(), FitChoice::by_campaign);
  const Validation alone = validate(published(), FitChoice::none);
  for (const auto& [operation, regime] : {std::pair{"dispatch", "bandwidth"}, std::pair{"dispatch", "latency"},
                                          std::pair{"combine", "latency"}, std::pair{"train_step", "all"}}) {
    INFO(operation << " " << regime);
    CHECK(line_of(fitted, operation, regime).mean_error_ratio < line_of(alone, operation, regime).mean_error_ratio);
  }
}
