#include "report/run_exports.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "report/json.hpp"
#include "report/made_up_run.hpp"
#include "report/run_summary.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;
using Json = nlohmann::json;

TEST_CASE("a summary has what the samples say", "[report]") {
  const StoredRun run = made_up_stored_run();
  const auto variants = summarize_run(run);
  REQUIRE(variants.size() == 3);
  CHECK(variants[0].verdict == "baseline");
  CHECK(variants[1].verdict == "faster");
  CHECK(variants[1].against_baseline->ratio == Approx(2));
  CHECK(variants[1].tokens_per_s_median == 2000);
  CHECK(variants[1].tokens_per_s_interval->low == 2000);  // all six launches are alike
  CHECK(variants[1].step.ms_mean == 500);
  CHECK(variants[1].logical_bytes == 3 << 20);
  // Two ranks: decoding takes 7/8 of the step in the mean of both, waiting 1/8; together the step.
  REQUIRE(variants[1].phases.size() == 2);
  CHECK(variants[1].phases[0].name == "decode");
  CHECK(variants[1].phases[0].ms_mean == 437.5);
  CHECK(variants[1].phases[0].ms_slowest == 500);
  CHECK(variants[1].phases[0].ms_fastest == 375);
  CHECK(variants[1].phases[1].ms_mean == 62.5);
}

TEST_CASE("an interval of a phase is over launches", "[report]") {
  RunRecord record{.results = {made_up_result("alltoall", true, {400, 600})}, .status = "ok"};
  compare_results(record.results);
  const StoredRun run = made_up_stored_run(record);
  const auto variants = summarize_run(run);
  // Means 400 and 600: standard error 100, and 12.706 of them to either side with one degree of freedom.
  CHECK(variants[0].step.ms_mean == 500);
  CHECK(variants[0].step.ms_high == Approx(500 + 12.7062 * 100).epsilon(1e-4));
  CHECK(variants[0].step.ms_low == 0);  // no time is negative
}

TEST_CASE("what was not measured has a verdict in words and no number", "[report]") {
  RunRecord record = made_up_record();
  record.results[1].launches.clear();
  record.results[1].status = ResultStatus::failed;
  record.results[1].reason = "no <memory> | left";
  record.results[2].same_work = false;
  const StoredRun run = made_up_stored_run(record);
  const auto variants = summarize_run(run);
  CHECK(variants[1].verdict == "failed: no <memory> | left");
  CHECK_FALSE(variants[1].against_baseline.has_value());
  CHECK(variants[2].verdict == "other work than the baseline: no number");
  CHECK_THAT(run_markdown(run), contains("| rank\\_dedup | - | - | - | - | - | failed: no &lt;memory> \\| left |"));
  const std::string junit = run_junit(run);
  CHECK_THAT(junit, contains("tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\""));
  CHECK_THAT(junit, contains("<error message=\"failed: no &lt;memory&gt; | left\"/>"));
}

TEST_CASE("CSV has a row per step and a column per phase", "[report]") {
  const std::string text = run_csv(made_up_stored_run());
  std::istringstream lines(text);
  std::string head, first, second;
  std::getline(lines, head);
  std::getline(lines, first);
  std::getline(lines, second);
  CHECK(head ==
        "cell,variant,source,transport,provider,block,launch,step,warmup,wall_ns,tokens,logical_bytes,wire_bytes,"
        "decode_ns,idle_ns");
  CHECK(first == "alltoall-id,alltoall,measured,libfabric,shm,0,0,0,1,77000000000,1000,0,0,,");
  CHECK(second ==
        "alltoall-id,alltoall,measured,libfabric,shm,0,0,1,0,1000000000,1000,3145728,2097152,875000000,125000000");
  CHECK(std::count(text.begin(), text.end(), '\n') == 1 + 3 * 6 * 2);
}

TEST_CASE("boards that read Google Benchmark find every launch and its aggregates", "[report]") {
  const Json json = Json::parse(run_google_benchmark(made_up_stored_run()));
  CHECK(json["context"]["host_name"] == "node-a");
  REQUIRE(json["benchmarks"].size() == 3 * (6 + 3));
  const Json& launch = json["benchmarks"][9];
  CHECK(launch["name"] == "moe_rl_bench/rank_dedup");
  CHECK(launch["run_type"] == "iteration");
  CHECK(launch["real_time"] == 500);
  CHECK(launch["time_unit"] == "ms");
  CHECK(launch["items_per_second"] == 2000);
  const Json& median = json["benchmarks"][9 + 7];
  CHECK(median["name"] == "moe_rl_bench/rank_dedup_median");
  CHECK(median["run_type"] == "aggregate");
  CHECK(median["aggregate_name"] == "median");
}
