#include "report/run_comparison.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "report/json.hpp"
#include "report/made_up_run.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

// One variant, eight launches of about a second, `ratio` times as long.
StoredRun stored(const std::string& id, double ratio, const std::string& dispatcher = "alltoall") {
  std::vector<std::int64_t> wall_ms;
  for (const double ms : {1000., 1010., 990., 1004., 996., 1008., 992., 1002.})
    wall_ms.push_back(static_cast<std::int64_t>(ms * ratio));
  RunInfo info = made_up_run();
  info.id = id;
  RunRecord record{.results = {made_up_result(dispatcher, true, wall_ms)}, .status = "ok"};
  compare_results(record.results);
  return parse_stored_run(result_json(info, record), id + ".json");
}

std::string refusal(const StoredRun& before, const StoredRun& after) {
  try {
    compare_runs(before, after, {});
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::not_comparable);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a run that takes a tenth longer fails both gates", "[report]") {
  const RunComparison comparison = compare_runs(stored("a", 1), stored("b", 1.1), {});
  CHECK(comparison.verdict == GateVerdict::fail);
  REQUIRE(comparison.metrics.size() == 2);
  CHECK(comparison.metrics[0].metric == "tokens_per_s");
  CHECK(comparison.metrics[0].before == Approx(1000.0 / 1.001));  // the median launch takes 1001 ms
  CHECK(comparison.metrics[0].result.slowdown == Approx(1.1).epsilon(0.001));
  CHECK(comparison.metrics[1].metric == "step_ms_p99");
  CHECK(comparison.metrics[1].result.verdict == GateVerdict::fail);
}

TEST_CASE("the same again passes, and the other way around is faster", "[report]") {
  CHECK(compare_runs(stored("a", 1), stored("b", 1), {}).verdict == GateVerdict::pass);
  CHECK(compare_runs(stored("a", 1.1), stored("b", 1), {}).verdict == GateVerdict::faster);
}

TEST_CASE("two stored runs are not pairs, and the reader is told so", "[report]") {
  const RunComparison comparison = compare_runs(stored("a", 1), stored("b", 1), {});
  CHECK_FALSE(comparison.paired);
  CHECK_THAT(comparison.warnings.back(), contains("unpaired"));
  ComparisonOptions sessions_differ;
  sessions_differ.policy.session_sd_ratio = 0.05;
  CHECK(compare_runs(stored("a", 1), stored("b", 1), sessions_differ).verdict == GateVerdict::inconclusive);
}

TEST_CASE("runs of other machines, other work or other variants are not comparable, and all of it is said",
          "[report]") {
  StoredRun other = stored("b", 1);
  other.fingerprint["processor"] = "Another CPU";
  other.fingerprint["ranks"] = "4";
  const std::string words = refusal(stored("a", 1), other);
  CHECK_THAT(words,
             contains("processor: 'Some CPU' before, 'Another CPU' after") && contains("ranks: '2' before, '4' after"));
  CHECK_THAT(words, contains("fix: ") && contains("--allow-mismatch"));

  other = stored("b", 1);
  other.cells[0].workload_id = "v";
  other.cells[0].id = "other";
  CHECK_THAT(refusal(stored("a", 1), other), contains("variant alltoall (alltoall-id) is missing after") &&
                                                 contains("no variant was measured in both"));

  other = stored("b", 1);
  other.cells[0].status = "failed";
  CHECK_THAT(refusal(stored("a", 1), other), contains("is 'done' before and 'failed' after"));
}

TEST_CASE("a run whose machine doctor warned of is not comparable, and that is said", "[report]") {
  StoredRun tainted = stored("b", 1);
  tainted.taints = {"gpu-clocks: GPU 3 is held down by heat"};
  CHECK_THAT(refusal(stored("a", 1), tainted), contains("doctor found of b: gpu-clocks: GPU 3 is held down by heat"));
}

TEST_CASE("a mismatch that is allowed becomes a warning", "[report]") {
  StoredRun other = stored("b", 1);
  other.fingerprint["processor"] = "Another CPU";
  ComparisonOptions options;
  options.allow_mismatch = true;
  const RunComparison comparison = compare_runs(stored("a", 1), other, options);
  CHECK(comparison.verdict == GateVerdict::pass);
  CHECK_THAT(comparison.warnings.front(), contains("Another CPU"));
}

TEST_CASE("a variant that is new after is not gated, and that is said", "[report]") {
  StoredRun after = stored("b", 1);
  after.cells.push_back(stored("c", 1, "rank_dedup").cells[0]);
  CHECK_THAT(compare_runs(stored("a", 1), after, {}).warnings.front(), contains("rank_dedup is new: it is not gated"));
}

TEST_CASE("one variant alone may differ in method, and then its name is that of the later run", "[report]") {
  CHECK(compare_runs(stored("a", 1), stored("b", 1, "rank_dedup"), {}).metrics[0].cell == "rank_dedup");
}

TEST_CASE("other work than the baseline's is wrong, whatever its speed", "[report]") {
  StoredRun other = stored("b", 1);
  other.cells[0].same_work = false;
  CHECK(compare_runs(stored("a", 1), other, {}).wrong_work);
}

TEST_CASE("every form of the answer names metric, change, interval, margin and verdict", "[report]") {
  const RunComparison fail = compare_runs(stored("a", 1), stored("b", 1.1), {});
  const std::string table = comparison_table(fail);
  CHECK_THAT(table, contains("tokens/s             999         908    -9.1%") && contains("3%") && contains("FAIL"));
  CHECK_THAT(table, contains("result: FAIL (2 FAIL, 0 INCONCLUSIVE of 2 gated)"));
  CHECK_THAT(comparison_markdown(fail),
             contains("### moe-rl-bench: FAIL") && contains("| alltoall | tokens/s | 999 | 908 | -9.1% |"));
  CHECK_THAT(comparison_annotations(fail),
             contains("::error title=moe-rl-bench FAIL::alltoall, tokens/s: 999 to 908, -9.1%25"));
  CHECK(comparison_annotations(compare_runs(stored("a", 1), stored("b", 1), {})).empty());
  const auto json = nlohmann::json::parse(comparison_json(fail));
  CHECK(json["verdict"] == "FAIL");
  CHECK(json["design"] == "unpaired");
  CHECK(json["metrics"][0]["slowdown_ratio"].get<double>() == Approx(1.1).epsilon(0.001));
}

TEST_CASE("in JUnit a FAIL is a failure, INCONCLUSIVE is skipped with its reason, and names are escaped", "[report]") {
  StoredRun few = stored("a", 1), after = stored("b<&\">", 1.1);
  const std::string failed = comparison_junit(compare_runs(few, after, {}));
  CHECK_THAT(failed,
             contains("tests=\"2\" failures=\"2\" errors=\"0\" skipped=\"0\"") && contains("<failure message=\""));
  CHECK_THAT(failed, contains("moe-rl-bench b&lt;&amp;&quot;&gt;") && !contains("b<&"));
  few.cells[0].launches.resize(2);
  const std::string skipped = comparison_junit(compare_runs(few, after, {}));
  CHECK_THAT(skipped,
             contains("failures=\"0\" errors=\"0\" skipped=\"2\"") && contains("too few: at least 3 are needed\"/>"));
}

TEST_CASE("the sides of one session are pairs, and what drifts over it does no harm", "[report]") {
  // Each launch takes 3% longer than the one before: 23% over the session, and nothing between the sides.
  const auto side = [](double ratio) {
    std::vector<std::int64_t> wall_ms;
    for (int i = 0; i < 8; ++i) wall_ms.push_back(static_cast<std::int64_t>(1000 * ratio * (1 + 0.03 * i)));
    RunRecord record{.results = {made_up_result("alltoall", true, wall_ms)}, .status = "ok"};
    compare_results(record.results);
    StoredRun run = parse_stored_run(result_json(made_up_run(), record), "a.json");
    run.session = "s";
    return run;
  };
  const RunComparison same = compare_runs(side(1), side(1.001), {});
  CHECK(same.paired);
  CHECK(same.verdict == GateVerdict::pass);
  CHECK(same.warnings.empty());
  CHECK(compare_runs(side(1), side(1.06), {}).verdict == GateVerdict::fail);
  StoredRun elsewhere = side(1.06);
  elsewhere.session = "t";
  CHECK(compare_runs(side(1), elsewhere, {}).verdict == GateVerdict::inconclusive);
}

TEST_CASE("runs without a variant in common are compared place by place, when the work is the same", "[report]") {
  StoredRun before = stored("a", 1), after = stored("b", 1);
  before.cells.push_back(stored("a", 1, "rank_dedup").cells[0]);
  after.cells.push_back(stored("b", 1, "two_hop").cells[0]);
  after.cells[0].id = "changed";
  CHECK(compare_runs(before, after, {}).metrics.size() == 4);
}
