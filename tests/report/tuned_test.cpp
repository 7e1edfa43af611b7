#include "report/tuned.hpp"

#include "report/made_up_run.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

// What a user's next run makes of the file.
Settings read_again(const std::string& yaml) {
  const TemporaryFile file(yaml);
  SettingsSources sources;
  sources.file = file.path();
  return load_settings(sources);
}

}  // namespace

TEST_CASE("tuned.yaml is the winner's configuration, and says why", "[report]") {
  const RunRecord record = made_up_record();
  const auto tuned = tuned_configs(made_up_run(), record);
  REQUIRE(tuned.size() == 1);
  CHECK(tuned[0].file == "tuned.yaml");
  CHECK_THAT(tuned[0].yaml,
             contains("# Chosen by moe-rl-bench run 20261201T101500Z-ab12cd on node-a, 2 ranks, measured."));
  CHECK_THAT(tuned[0].yaml, contains("# rank_dedup: +100.0% [+100.0%, +100.0%] tokens/s against the "
                                     "baseline, alltoall (95% interval over 3 blocks)."));
  CHECK_THAT(tuned[0].yaml, contains("#   slow: -50.0% [-50.0%, -50.0%]"));
  const auto points = expand(read_again(tuned[0].yaml));
  REQUIRE(points.size() == 1);
  CHECK(canonical_lines(points[0].config, FieldSet::all) ==
        canonical_lines(record.results[1].experiment.config, FieldSet::all));
}

TEST_CASE("tuned.yaml is the baseline when nothing is shown to be faster", "[report]") {
  RunRecord record{.results = {made_up_result("alltoall", true, {1000, 1000, 1000, 1000}),
                               made_up_result("rank_dedup", false, {900, 900, 1100, 1100})},
                   .blocks_done = 2};
  compare_results(record.results);
  const auto tuned = tuned_configs(made_up_run(), record);
  REQUIRE(tuned.size() == 1);
  CHECK_THAT(tuned[0].yaml, contains("# The baseline, alltoall: no variant was shown to be faster in 2 blocks."));
  CHECK(expand(read_again(tuned[0].yaml))[0].config.dispatcher.name == "alltoall");
}

TEST_CASE("each workload has a tuned file", "[report]") {
  RunRecord record = made_up_record();
  record.results.push_back(made_up_result("alltoall", true, {1000, 1000}));
  record.results.back().experiment.workload_id = "other";
  compare_results(record.results);
  const auto tuned = tuned_configs(made_up_run(), record);
  REQUIRE(tuned.size() == 2);
  CHECK(tuned[1].file == "tuned-2.yaml");
}

TEST_CASE("without a baseline that ran there is nothing to choose from", "[report]") {
  RunRecord record = made_up_record();
  record.results[0].status = ResultStatus::failed;
  compare_results(record.results);
  CHECK(tuned_configs(made_up_run(), record).empty());
}

TEST_CASE("a ratio is shown with its interval, or with why there is none", "[report]") {
  CHECK(ratio_text({.ratio = 1.021, .low = 0.985, .high = 1.058, .blocks = 3}) == "+2.1% [-1.5%, +5.8%]");
  CHECK(ratio_text({.ratio = 0.9, .blocks = 1}) == "-10.0% (one block)");
  CHECK(ratio_text({}) == "no block yet");
}
