// Worked numbers: computed in double precision from the formulae, for the rewards of four groups.
#include "grpo/advantages.hpp"

#include <cmath>
#include <numeric>
#include <string_view>

#include "base/error.hpp"
#include "support/catch.hpp"

using mrb::group_advantages;
using mrb::test::Approx;

namespace {

constexpr const char* kKinds[] = {"grpo",      "grpo_population", "dr_grpo", "leave_one_out", "leave_one_out_std",
                                  "pass_at_k", "batch_std"};

void check(const char* kind, const std::vector<double>& rewards, const std::vector<double>& expected,
           double eps = 1e-6) {
  const auto advantages = group_advantages(kind, rewards, {.eps = eps, .batch_deviation = mrb::deviation(rewards)});
  REQUIRE(advantages.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO(kind << " of reward " << rewards[i]);
    CHECK(advantages[i] == Approx(expected[i]).margin(1e-9));
  }
}

}  // namespace

TEST_CASE("advantages of two right answers of four", "[grpo]") {
  const std::vector<double> rewards = {1, 0, 0, 1};
  check("grpo", rewards, {0.866023904, -0.866023904, -0.866023904, 0.866023904});
  check("grpo", rewards, {0.865875430, -0.865875430, -0.865875430, 0.865875430}, 1e-4);
  check("grpo_population", rewards, {1, -1, -1, 1}, 0);
  check("dr_grpo", rewards, {0.5, -0.5, -0.5, 0.5});
  check("leave_one_out", rewards, {2 / 3.0, -2 / 3.0, -2 / 3.0, 2 / 3.0});
}

TEST_CASE("advantages of one right answer of eight", "[grpo]") {
  const std::vector<double> rewards = {1, 0, 0, 0, 0, 0, 0, 0};
  const auto with = [](double winner, double loser) {
    return std::vector<double>{winner, loser, loser, loser, loser, loser, loser, loser};
  };
  check("grpo", rewards, with(2.474866734, -0.353552391));
  check("grpo", rewards, with(2.474173932, -0.353453419), 1e-4);
  check("grpo_population", rewards, with(2.645751311, -0.377964473), 0);
  check("dr_grpo", rewards, with(0.875, -0.125));
  check("leave_one_out", rewards, with(1, -0.142857143));
}

TEST_CASE("advantages of graded answers", "[grpo]") {
  const std::vector<double> rewards = {.2, .5, .9, 1};
  check("grpo", rewards, {-1.217250714, -0.405750238, 0.676250397, 0.946750555});
  check("grpo", rewards, {-1.216924828, -0.405641609, 0.676069349, 0.946497088}, 1e-4);
  check("grpo_population", rewards, {-1.405563857, -0.468521286, 0.780868809, 1.093216333}, 0);
  check("dr_grpo", rewards, {-.45, -.15, .25, .35});
  check("leave_one_out", rewards, {-.6, -.2, 1 / 3.0, 0.466666667});
}

// The others of the winner of [1, 0 x 7] are all alike, and their deviation is 0: its advantage of 1 - 0 is not divided.
// Those of a loser hold one 1 in seven: mean 1/7, unbiased variance (1/7)(6/7)(7/6) = 1/7.
TEST_CASE("leaving one out of the deviation too never divides by zero", "[grpo]") {
  const double loser = -1.0 / 7 / (std::sqrt(1.0 / 7) + 1e-6);
  check("leave_one_out_std", {1, 0, 0, 0, 0, 0, 0, 0}, {1, loser, loser, loser, loser, loser, loser, loser});
  check("leave_one_out_std", {1, 0.1, 0.1, 0.1},
        {0.9, -0.3 / std::sqrt(0.27), -0.3 / std::sqrt(0.27), -0.3 / std::sqrt(0.27)}, 0);
  check("leave_one_out_std", {1, 0}, {1, -1});  // one other has no deviation
}

// Others of .2 are .5 .9 1: mean .8, variance (.09 + .01 + .04) / 2 = .07; of .5: .7, .19; of .9: .566667, .163333; of 1:
// .533333, .123333.
TEST_CASE("leaving one out of the deviation of graded answers", "[grpo]") {
  check("leave_one_out_std", {.2, .5, .9, 1},
        {-.6 / std::sqrt(.07), -.2 / std::sqrt(.19), (1 / 3.0) / std::sqrt(.49 / 3), (1.4 / 3) / std::sqrt(.37 / 3)},
        0);
}

// s of the graded answers is 0.369684550; the best is 0.1 above the second.
TEST_CASE("pass at k rewards the best answer by its lead, and no other", "[grpo]") {
  check("pass_at_k", {.2, .5, .9, 1}, {0, 0, 0, 0.1 / (0.369684550 + 1e-6)});
  check("pass_at_k", {1, 0, 0, 0, 0, 0, 0, 0}, {1 / (std::sqrt(0.125) + 1e-6), 0, 0, 0, 0, 0, 0, 0});
  check("pass_at_k", {1, 0, 0, 1}, {0, 0, 0, 0});  // two best: no lead
}

TEST_CASE("the batch's deviation scales every group alike", "[grpo]") {
  const auto advantages =
      group_advantages("batch_std", std::vector<double>{1, 0, 0, 1}, {.eps = 1e-4, .batch_deviation = 0.4});
  CHECK(advantages[0] == Approx(0.5 / 0.4001).margin(1e-12));
  CHECK(advantages[1] == Approx(-0.5 / 0.4001).margin(1e-12));
}

TEST_CASE("a deviation is exactly zero when nothing deviates", "[grpo]") {
  CHECK(mrb::deviation(std::vector<double>{0.1, 0.1, 0.1}) == 0);
  CHECK(mrb::deviation(std::vector<double>{3}) == 0);
  CHECK(mrb::deviation(std::vector<double>{}) == 0);
  CHECK(mrb::deviation(std::vector<double>{1, 3}) == Approx(std::sqrt(2.0)));
}

TEST_CASE("a group whose answers are all alike teaches nothing, whatever the kind", "[grpo]") {
  for (const char* kind : kKinds) {
    check(kind, {1, 1, 1, 1}, {0, 0, 0, 0});
    check(kind, {0.1, 0.1, 0.1}, {0, 0, 0}, 0);  // the mean of three tenths is not exactly a tenth
  }
}

TEST_CASE("a group of one is compared with nothing", "[grpo]") {
  check("grpo", {0.7}, {0.7 / (1 + 1e-6)});  // mean 0, deviation 1
  for (const char* kind : {"dr_grpo", "leave_one_out", "leave_one_out_std", "batch_std"}) check(kind, {0.7}, {0});
}

TEST_CASE("advantages add up to nothing and do not change with a constant added to all rewards", "[grpo]") {
  const std::vector<double> rewards = {.3, 1.7, -.4, .9, 0};
  std::vector<double> shifted = rewards;
  for (double& reward : shifted) reward += 12.5;
  const mrb::AdvantageScale scale{.eps = 1e-6, .batch_deviation = 0.3};
  for (const std::string_view kind : kKinds) {
    INFO(kind);
    const auto advantages = group_advantages(kind, rewards, scale);
    if (kind != "pass_at_k" && kind != "leave_one_out_std") {
      CHECK(std::accumulate(advantages.begin(), advantages.end(), 0.0) == Approx(0).margin(1e-12));
    }
    const auto moved = group_advantages(kind, shifted, scale);
    for (std::size_t i = 0; i < rewards.size(); ++i) CHECK(moved[i] == Approx(advantages[i]).margin(1e-9));
  }
}

TEST_CASE("leaving one out is the plain difference times G over G - 1", "[grpo]") {
  const std::vector<double> rewards = {.3, 1.7, -.4, .9, 0};
  const auto plain = group_advantages("dr_grpo", rewards, {}),
             left_out = group_advantages("leave_one_out", rewards, {});
  for (std::size_t i = 0; i < rewards.size(); ++i) CHECK(left_out[i] == Approx(plain[i] * 5 / 4).margin(1e-12));
}

TEST_CASE("advantages over the group's own deviation do not change with the scale of rewards, up to eps", "[grpo]") {
  const std::vector<double> rewards = {.3, 1.7, -.4, .9, 0};
  std::vector<double> scaled = rewards;
  for (double& reward : scaled) reward *= 40;
  for (const char* kind : {"grpo", "grpo_population", "leave_one_out_std", "pass_at_k"}) {
    INFO(kind);
    const auto advantages = group_advantages(kind, rewards, {}), same = group_advantages(kind, scaled, {});
    for (std::size_t i = 0; i < rewards.size(); ++i) CHECK(same[i] == Approx(advantages[i]).margin(1e-12));
  }
}

TEST_CASE("an advantage nobody knows lists those there are", "[grpo]") {
  CHECK_THROWS_WITH(group_advantages("gppo", std::vector<double>{1, 2}, {}),
                    mrb::test::contains("fix: use one of: grpo,"));
}
