#include "stats/modes.hpp"

#include <cmath>
#include <vector>

#include "base/random.hpp"
#include "support/catch.hpp"

using namespace mrb;

TEST_CASE("two groups of launches are found, with their sizes and medians", "[stats]") {
  const auto modes = find_two_modes(std::vector<double>{5.0, 9.0, 5.1, 9.2, 5.05, 9.1, 5.02});
  REQUIRE(modes);
  CHECK(modes->low_count == 4);
  CHECK(modes->high_count == 3);
  CHECK(modes->low_median == 5.035);
  CHECK(modes->high_median == 9.1);
}

TEST_CASE("what is no second mode is not called one", "[stats]") {
  CHECK_FALSE(find_two_modes({}));
  CHECK_FALSE(find_two_modes(std::vector<double>{1, 1, 1, 9, 9}));                  // too few
  CHECK_FALSE(find_two_modes(std::vector<double>{5, 5, 5, 5, 5, 5, 5}));            // all equal
  CHECK_FALSE(find_two_modes(std::vector<double>{5, 5.1, 5.2, 5.05, 5.1, 50}));     // one outlier
  CHECK_FALSE(find_two_modes(std::vector<double>{5, 5.01, 5, 5.3, 5.31, 5.3}));     // 6% apart
  CHECK_FALSE(find_two_modes(std::vector<double>{0, 0, 0, 5, 5, 5}));               // no logarithm
  CHECK_FALSE(find_two_modes(std::vector<double>{1, 1.3, 1.6, 2.2, 2.5, 3, 3.6}));  // spread out
}

// The share of false alarms that modes.hpp promises, and that real modes are found: the fast and slow launches of one
// program over tcp lay 2.45 times apart with 3% inside each.
TEST_CASE("normal samples are seldom taken for two modes, and real modes are found", "[stats]") {
  constexpr int kTrials = 4000;
  for (const int samples : {6, 8, 10, 20, 40}) {
    int false_alarms = 0, found = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      Random random({static_cast<std::uint64_t>(trial), static_cast<std::uint64_t>(samples)});
      std::vector<double> one, two;
      for (int i = 0; i < samples; ++i) {
        one.push_back(std::exp(0.1 * random.normal()));
        two.push_back((i % 2 == 0 ? 1 : 2.45) * std::exp(0.03 * random.normal()));
      }
      false_alarms += find_two_modes(one) ? 1 : 0;
      found += find_two_modes(two) ? 1 : 0;
    }
    INFO(samples << " samples: " << false_alarms << " false alarms, " << found << " found of " << kTrials);
    CHECK(false_alarms < kTrials / 100);
    CHECK(found > kTrials * 99 / 100);
  }
}

TEST_CASE("modes that both sides fall into are found, sides that differ are not called modes", "[stats]") {
  const std::vector<double> mixed = {10, 13, 10.1, 13.2, 9.9, 12.9, 10, 13.1}, low = {10, 10.1, 9.9, 10, 10.2, 10.1},
                            high = {13, 13.1, 12.9, 13, 13.2, 13.1};
  const auto modes = find_modes_over_sides(mixed, mixed);
  REQUIRE(modes);
  CHECK(modes->modes.low_count == 8);
  CHECK(modes->modes.high_count == 8);
  CHECK_FALSE(modes->are_sides);
  CHECK_FALSE(find_modes_over_sides(low, high));
  const auto nearly = find_modes_over_sides(low, std::vector<double>{13, 13.1, 12.9, 13, 13.2, 10.1});
  REQUIRE(nearly);
  CHECK(nearly->are_sides);
  CHECK_FALSE(find_modes_over_sides({}, {}));
}
