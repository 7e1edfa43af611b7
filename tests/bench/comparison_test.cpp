#include "bench/comparison.hpp"

#include <cmath>
#include <limits>

#include "bench/made_up.hpp"
#include "bench/runner.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("a launch's rate leaves the warm-up out", "[bench]") {
  CHECK(launch_tokens_per_s(made_up_launch(0, 250)) == Approx(4000));  // 1000 tokens in a quarter of a second
}

TEST_CASE("a block's ratio is that of the geometric means of its launches", "[bench]") {
  // Baseline 1000 and 250 tokens a second, geometric mean 500; variant 2000 and 500, mean 1000.
  const Result baseline = made_up_result("a", true, {1000, 4000});
  const Result variant = made_up_result("b", false, {500, 2000});
  REQUIRE(block_log_ratios(variant, baseline).size() == 1);
  CHECK(block_log_ratios(variant, baseline)[0] == Approx(std::log(2.0)));
}

TEST_CASE("drift from block to block cancels in the ratio", "[bench]") {
  // The machine gets five times slower over the run; the variant is 1.25 times as fast throughout.
  std::vector<Result> results = {made_up_result("a", true, {500, 500, 1000, 1000, 2500, 2500}),
                                 made_up_result("b", false, {400, 400, 800, 800, 2000, 2000})};
  compare_results(results);
  CHECK(results[1].against_baseline.ratio == Approx(1.25));
  CHECK(results[1].against_baseline.low == Approx(1.25));
  CHECK(results[1].against_baseline.verdict == Verdict::faster);
  CHECK(results[1].tokens_per_s.count == 6);
}

TEST_CASE("only blocks in which both ran are compared", "[bench]") {
  std::vector<Result> results = {made_up_result("a", true, {1000, 1000, 1000, 1000}),
                                 made_up_result("b", false, {500, 500})};
  compare_results(results);
  CHECK(results[1].against_baseline.blocks == 1);
  CHECK(results[1].against_baseline.verdict == Verdict::inconclusive);
}

TEST_CASE("a variant that does other work gets no number", "[bench]") {
  for (const double loss : {0.5 * (1 + 2e-4), std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<Result> results = {made_up_result("a", true, {1000, 1000, 1000, 1000}),
                                   made_up_result("b", false, {500, 500, 500, 500}, loss)};
    compare_results(results);
    CHECK_FALSE(results[1].same_work);
    CHECK(results[1].against_baseline.blocks == 0);
    CHECK(results[1].against_baseline.verdict == Verdict::inconclusive);
    CHECK(&choose(results, results[0]) == &results[0]);
    CHECK(exit_code_of({.results = results, .status = "ok"}) == 4);
  }
}

TEST_CASE("losses may differ by rounding, and by more of it in bf16", "[bench]") {
  std::vector<Result> results = {made_up_result("a", true, {1000, 1000}),
                                 made_up_result("b", false, {500, 500}, 0.5 * (1 + 5e-5))};
  compare_results(results);
  CHECK(results[1].same_work);
  CHECK(results[1].loss_difference_max == Approx(5e-5).epsilon(1e-3));

  results[1] = made_up_result("b", false, {500, 500}, 0.5 * 1.015);
  compare_results(results);
  CHECK_FALSE(results[1].same_work);
  results[1].experiment.config.compute.dtype = "bf16";
  compare_results(results);
  CHECK(results[1].same_work);
}

TEST_CASE("a loss near zero is compared with a floor, for it is a sum that cancels", "[bench]") {
  const StepSample a{.loss = 1e-9, .log_prob_mean = -3}, b{.loss = -1e-9, .log_prob_mean = -3};
  CHECK(work_difference(a, b) == Approx(2e-9 / 0.01));
}

TEST_CASE("other tokens are told, even where losses agree", "[bench]") {
  std::vector<Result> results = {made_up_result("a", true, {1000, 1000}), made_up_result("b", false, {500, 500})};
  results[1].launches[1].steps[1].token_checksum = 99;
  compare_results(results);
  CHECK(results[1].same_work);
  CHECK_FALSE(results[1].same_tokens);
}

TEST_CASE("the choice is the highest ratio among those shown to be faster", "[bench]") {
  std::vector<Result> results = {
      made_up_result("a", true, {1000, 1000, 1000, 1000}), made_up_result("steady", false, {800, 800, 800, 800}),
      made_up_result("faster", false, {600, 600, 600, 600}), made_up_result("erratic", false, {100, 100, 900, 900})};
  compare_results(results);
  CHECK(results[3].against_baseline.ratio > results[2].against_baseline.ratio);
  CHECK(results[3].against_baseline.verdict == Verdict::no_difference_shown);
  CHECK(choose(results, results[0]).experiment.label == "faster");
}

TEST_CASE("nothing shown to be faster leaves the baseline", "[bench]") {
  std::vector<Result> results = {made_up_result("a", true, {1000, 1000, 1000, 1000}),
                                 made_up_result("b", false, {900, 900, 1100, 1100})};
  compare_results(results);
  CHECK(&choose(results, results[0]) == &results[0]);
}

TEST_CASE("each workload has its own baseline and its own choice", "[bench]") {
  std::vector<Result> results = {
      made_up_result("a", true, {1000, 1000, 1000, 1000}), made_up_result("b", false, {500, 500, 500, 500}),
      made_up_result("a", true, {10, 10, 10, 10}, 0.9), made_up_result("b", false, {20, 20, 20, 20}, 0.9)};
  results[2].experiment.workload_id = results[3].experiment.workload_id = "other";
  compare_results(results);
  CHECK(find_baseline(results, results[3]) == &results[2]);
  CHECK(&choose(results, results[0]) == &results[1]);
  CHECK(&choose(results, results[2]) == &results[2]);
}

TEST_CASE("without its baseline a variant has a rate and no comparison", "[bench]") {
  std::vector<Result> results = {made_up_result("a", true, {}), made_up_result("b", false, {500, 500, 500, 500})};
  results[0].status = ResultStatus::failed;
  compare_results(results);
  CHECK(find_baseline(results, results[1]) == nullptr);
  CHECK(results[1].tokens_per_s.median == Approx(2000));
  CHECK(results[1].against_baseline.blocks == 0);
}

TEST_CASE("the exit code tells what came of a run", "[bench]") {
  RunRecord record = made_up_record();
  CHECK(exit_code_of(record) == 0);
  record.status = "partial";
  CHECK(exit_code_of(record) == 7);
  record.status = "failed";
  CHECK(exit_code_of(record) == 5);
  record.results[1].wrong = true;  // wrong results come before all
  CHECK(exit_code_of(record) == 4);
}
