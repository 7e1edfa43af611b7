#include "stats/comparison.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::Approx;

TEST_CASE("Student's quantile has its published values", "[stats]") {
  CHECK(student_t_975(1) == Approx(12.706).margin(5e-4));
  CHECK(student_t_975(2) == Approx(4.303).margin(5e-4));
  CHECK(student_t_975(5) == Approx(2.571).margin(5e-4));
  CHECK(student_t_975(10) == Approx(2.228).margin(5e-4));
  CHECK(student_t_975(30) == Approx(2.042).margin(5e-4));
  CHECK(student_t_975(1000000) == Approx(1.960).margin(5e-4));  // the normal distribution's
}

TEST_CASE("three blocks that disagree show no difference", "[stats]") {
  // Mean 0.2, standard deviation 0.1, half width 4.302653 * 0.1 / sqrt(3) = 0.248414.
  const RatioEstimate estimate = estimate_ratio(std::vector<double>{0.1, 0.2, 0.3});
  CHECK(estimate.ratio == Approx(1.221403).epsilon(1e-6));
  CHECK(estimate.low == Approx(0.952740).epsilon(1e-6));
  CHECK(estimate.high == Approx(1.565826).epsilon(1e-6));
  CHECK(estimate.blocks == 3);
  CHECK(estimate.verdict == Verdict::no_difference_shown);
}

TEST_CASE("three blocks that agree show which is faster", "[stats]") {
  // Mean 0.12, standard deviation 0.02, half width 4.302653 * 0.02 / sqrt(3) = 0.049683.
  const RatioEstimate faster = estimate_ratio(std::vector<double>{0.10, 0.12, 0.14});
  CHECK(faster.low == Approx(1.072848).epsilon(1e-6));
  CHECK(faster.high == Approx(1.184929).epsilon(1e-6));
  CHECK(faster.verdict == Verdict::faster);
  const RatioEstimate slower = estimate_ratio(std::vector<double>{-0.10, -0.12, -0.14});
  CHECK(slower.high == Approx(1 / 1.072848).epsilon(1e-6));
  CHECK(slower.verdict == Verdict::slower);
}

TEST_CASE("one wild block hides what the others show", "[stats]") {
  // Without the last one the interval would be a point; with it the half width is 2.776445 * 0.402492 / sqrt(5).
  const RatioEstimate estimate = estimate_ratio(std::vector<double>{0.1, 0.1, 0.1, 0.1, 1.0});
  CHECK(estimate.verdict == Verdict::no_difference_shown);
  CHECK(std::log(estimate.high) - std::log(estimate.ratio) == Approx(0.499760).epsilon(1e-5));
}

TEST_CASE("equal blocks leave no doubt", "[stats]") {
  const RatioEstimate estimate = estimate_ratio(std::vector<double>{0.25, 0.25, 0.25, 0.25});
  CHECK(estimate.low == estimate.high);
  CHECK(estimate.verdict == Verdict::faster);
  CHECK(estimate_ratio(std::vector<double>{0, 0, 0}).verdict == Verdict::no_difference_shown);
}

TEST_CASE("fewer than two blocks are inconclusive", "[stats]") {
  for (const auto& blocks : {std::vector<double>{}, std::vector<double>{0.5}}) {
    const RatioEstimate estimate = estimate_ratio(blocks);
    CHECK(estimate.verdict == Verdict::inconclusive);
    CHECK(estimate.low == 0);
    CHECK(std::isinf(estimate.high));
    CHECK(estimate.blocks == static_cast<int>(blocks.size()));
  }
  CHECK(estimate_ratio(std::vector<double>{0.5}).ratio == Approx(std::exp(0.5)));
}

TEST_CASE("a ratio that is not a number is refused", "[stats]") {
  for (const double bad : {std::nan(""), -std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(estimate_ratio(std::vector<double>{0.1, bad}), Error);
  }
}
