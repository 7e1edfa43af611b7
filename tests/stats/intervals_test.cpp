#include "stats/intervals.hpp"

#include <cmath>
#include <vector>

#include "base/random.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::Approx;

TEST_CASE("the median's interval has the coverage of the binomial distribution", "[stats]") {
  // Six samples: both ends, missed when all lie on one side: 1 - 2/64.
  const auto six = median_interval(std::vector<double>{3, 1, 2, 6, 5, 4}, 0.95);
  REQUIRE(six);
  CHECK(six->low == 1);
  CHECK(six->high == 6);
  CHECK(six->confidence == Approx(1 - 2.0 / 64));
  // Ten: the second of each end, 1 - 2 (1 + 10) / 1024.
  const auto ten = median_interval(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.95);
  REQUIRE(ten);
  CHECK(ten->low == 2);
  CHECK(ten->high == 9);
  CHECK(ten->confidence == Approx(1 - 22.0 / 1024));
}

TEST_CASE("too few samples have no interval of their median", "[stats]") {
  CHECK_FALSE(median_interval({}, 0.95));
  CHECK_FALSE(median_interval(std::vector<double>{1, 2, 3, 4, 5}, 0.95));
}

TEST_CASE("a wild sample does not carry the robust mean away", "[stats]") {
  // Lowest and highest of twelve replaced by their neighbours; tests/reference/statistics.py has scipy's numbers.
  const RobustMean robust =
      robust_mean(std::vector<double>{0.01, 0.03, -0.02, 0.04, 0.00, 0.02, 0.25, 0.01, -0.01, 0.03, 0.02, 0.01});
  CHECK(robust.mean == Approx(0.015833333333333335).epsilon(1e-12));
  CHECK(robust.standard_error == Approx(0.006103390184324814).epsilon(1e-12));
  CHECK(robust.degrees_of_freedom == 9);
}

TEST_CASE("of fewer than ten samples the robust mean is the plain one", "[stats]") {
  // Mean 0.2, standard deviation 0.1, over the root of three.
  const RobustMean plain = robust_mean(std::vector<double>{0.1, 0.2, 0.3});
  CHECK(plain.mean == Approx(0.2));
  CHECK(plain.standard_error == Approx(0.1 / std::sqrt(3.0)));
  CHECK(plain.degrees_of_freedom == 2);
}

TEST_CASE("equal samples leave nothing uncertain", "[stats]") {
  const std::vector<double> equal(12, 4.0);
  CHECK(robust_mean(equal).standard_error == 0);
  const Interval interval = bootstrap_interval(equal, 0.95, 200, 1);
  CHECK(interval.low == 4.0);
  CHECK(interval.high == 4.0);
}

TEST_CASE("the bootstrap interval holds the true mean about as often as it says", "[stats]") {
  int held = 0;
  constexpr int kTrials = 300;
  for (unsigned trial = 0; trial < kTrials; ++trial) {
    Random random({trial, Random::lengths});
    std::vector<double> samples;
    for (int i = 0; i < 30; ++i) samples.push_back(random.normal());
    const Interval interval = bootstrap_interval(samples, 0.95, 400, trial);
    held += interval.low < 0 && 0 < interval.high ? 1 : 0;
  }
  CHECK(held > kTrials * 0.89);
  CHECK(held < kTrials * 0.98);
}
