#include "stats/change_points.hpp"

#include <cmath>

#include "base/random.hpp"
#include "support/catch.hpp"

using namespace mrb;

namespace {

// Levels, one after the other, of so many runs each, with an sd of 1% between runs.
std::vector<double> series(std::initializer_list<std::pair<double, int>> levels, std::uint64_t seed = 1) {
  Random random({seed, Random::order});
  std::vector<double> samples;
  for (const auto& [level, runs] : levels) {
    for (int i = 0; i < runs; ++i) samples.push_back(level * std::exp(0.01 * random.normal()));
  }
  return samples;
}

}  // namespace

TEST_CASE("a planted change is found at the run that brought it, with both levels", "[stats]") {
  const auto changes = find_change_points(series({{1000, 12}, {950, 8}}));
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].index == 12);
  CHECK(changes[0].median_before == Approx(1000).epsilon(0.01));
  CHECK(changes[0].median_after == Approx(950).epsilon(0.01));
  CHECK(changes[0].p_value <= 0.05);
}

TEST_CASE("several changes are told of in the order of time", "[stats]") {
  const auto changes = find_change_points(series({{1000, 15}, {900, 10}, {1050, 15}}));
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].index == 15);
  CHECK(changes[1].index == 25);
  CHECK(changes[0].median_after == changes[1].median_before);
}

TEST_CASE("a change is found once three runs have its level, and one or two wild runs are none", "[stats]") {
  const auto ends = [](int runs) { return find_change_points(series({{1000, 30}, {900, runs}})).size(); };
  CHECK(ends(1) == 0);
  CHECK(ends(3) == 1);
  std::vector<double> spike = series({{1000, 30}});
  spike[14] = 500;
  CHECK(find_change_points(spike).empty());
  spike[22] = 600;
  CHECK(find_change_points(spike).empty());
}

TEST_CASE("what is smaller than asked for is not told of, however sure", "[stats]") {
  std::vector<double> samples(20, 1000.0);
  for (std::size_t i = 10; i < 20; ++i) samples[i] = 995;
  CHECK(find_change_points(samples).empty());
  CHECK(find_change_points(samples, {.change_ratio_min = 0.004}).size() == 1);
}

TEST_CASE("a series with nothing in it has no change", "[stats]") {
  CHECK(find_change_points({}).empty());
  CHECK(find_change_points(std::vector<double>{1000}).empty());
  CHECK(find_change_points(std::vector<double>(30, 1000.0)).empty());
  CHECK(find_change_points(std::vector<double>{1, 1, 1, 2, 2}).empty());
  CHECK_THROWS(find_change_points(std::vector<double>{1, 0, 1}));
}

// Six runs divide into halves in 20 ways, and the sharpest of them looks the same from both sides: 2 in 20 is above 5%.
// Of eight, 2 in 70 is below.
TEST_CASE("a series that is too short to show any change is known", "[stats]") {
  CHECK(samples_to_show_a_change({.alpha = 0.1}) == 6);
  CHECK(samples_to_show_a_change({.alpha = 0.05}) == 8);  // of seven: 2 in 35
  const std::vector<double> sharp = {10, 10.1, 10.2, 10.3, 20, 20.1, 20.2, 20.3};
  CHECK(find_change_points(sharp).size() == 1);
  CHECK(find_change_points(std::span(sharp).first(7)).empty());
}

TEST_CASE("in series without a change, alpha of them have one", "[stats]") {
  constexpr int kTrials = 400;
  int alarms = 0;
  for (std::uint64_t trial = 1; trial <= kTrials; ++trial)
    alarms += find_change_points(series({{1000, 20}}, trial), {.change_ratio_min = 0}).empty() ? 0 : 1;
  INFO(alarms << " of " << kTrials);
  CHECK(alarms <= 33);  // of 5%: 20, and three standard deviations
  CHECK(alarms >= 7);   // a test that never speaks would pass otherwise
}

TEST_CASE("how much days differ is known from a history, and a change of level does not count as that", "[stats]") {
  CHECK_FALSE(session_sd_ratio(std::vector<double>(5, 1000.0), {}));
  CHECK(*session_sd_ratio(std::vector<double>(6, 1000.0), {}) == 0);
  const auto steady = series({{1000, 400}}), stepped = series({{1000, 200}, {800, 200}});
  CHECK(*session_sd_ratio(steady, {}) == Approx(0.01).epsilon(0.1));
  CHECK(*session_sd_ratio(stepped, {}) == Approx(0.01).epsilon(0.1));
  CHECK(*session_sd_ratio(steady, std::vector<double>(400, 0.02)) == 0);  // launches explain all of it
}
