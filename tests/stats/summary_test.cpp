#include "stats/summary.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::Approx;

TEST_CASE("a summary of samples in any order", "[stats]") {
  // Sorted 1 2 3 4 10: mean 20/5, median the third; p95 lies 0.95 * 4 = 3.8 places up: 4 + 0.8 * 6. Squares of the
  // distances to the mean 9 4 1 0 36, sum 50, over n - 1 = 12.5, and its root over the mean.
  const Summary summary = summarize(std::vector<double>{10, 1, 3, 4, 2});
  CHECK(summary.count == 5);
  CHECK(summary.mean == 4);
  CHECK(summary.median == 3);
  CHECK(summary.min == 1);
  CHECK(summary.max == 10);
  CHECK(summary.p95 == Approx(8.8));
  CHECK(summary.variation == Approx(std::sqrt(12.5) / 4));
}

TEST_CASE("the median of an even count is the mean of the middle two", "[stats]") {
  CHECK(summarize(std::vector<double>{4, 1, 3, 2}).median == 2.5);
}

TEST_CASE("no samples give an empty summary", "[stats]") {
  const Summary summary = summarize({});
  CHECK(summary.count == 0);
  CHECK(summary.median == 0);
}

TEST_CASE("one sample has no variation", "[stats]") {
  const Summary summary = summarize(std::vector<double>{7});
  CHECK(summary.median == 7);
  CHECK(summary.p95 == 7);
  CHECK(summary.variation == 0);
}

TEST_CASE("equal samples have no variation", "[stats]") {
  const Summary summary = summarize(std::vector<double>{5, 5, 5});
  CHECK(summary.variation == 0);
  CHECK(summary.mean == 5);
}

TEST_CASE("the median does not follow one wild sample", "[stats]") {
  CHECK(summarize(std::vector<double>{1, 1, 1, 1e9, 1}).median == 1);
}

TEST_CASE("samples that are not numbers are refused", "[stats]") {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_WITH(summarize(std::vector<double>{1, bad, 2}), test::contains("sample 2 of 3"));
  }
}

TEST_CASE("a quantile lies between its two closest samples", "[stats]") {
  const std::vector<double> sorted = {10, 20, 30};
  CHECK(quantile(sorted, 0) == 10);
  CHECK(quantile(sorted, 1) == 30);
  CHECK(quantile(sorted, 0.75) == Approx(25));  // 1.5 places up
}
