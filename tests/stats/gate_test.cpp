#include "stats/gate.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace mrb;
using Catch::Matchers::Contains;
using mrb::test::Approx;

namespace {

// Tokens a second of launches with about 1% between them; the side after is `ratio` times as fast.
GateSamples rates(double ratio, std::size_t pairs = 8) {
  const double noise[] = {1.00, 1.01, 0.99, 1.005, 0.995, 1.008, 0.992, 1.002};
  GateSamples samples;
  for (std::size_t i = 0; i < pairs; ++i) {
    samples.before.push_back(1000 * noise[i % 8]);
    samples.after.push_back(1000 * ratio * noise[(i * 3 + 1) % 8]);
  }
  return samples;
}

GateResult judge_one(const GateSamples& samples, const GatePolicy& policy = {}) {
  return judge(std::span(&samples, 1), policy).front();
}

}  // namespace

TEST_CASE("the gate tells slower, as before and faster apart", "[stats]") {
  CHECK(judge_one(rates(0.90)).verdict == GateVerdict::fail);
  CHECK(judge_one(rates(1.00)).verdict == GateVerdict::pass);
  CHECK(judge_one(rates(1.10)).verdict == GateVerdict::faster);
}

TEST_CASE("of a time, higher is slower", "[stats]") {
  GateSamples times = rates(1.10);
  times.better = Better::lower;
  const GateResult result = judge_one(times);
  CHECK(result.verdict == GateVerdict::fail);
  CHECK(result.slowdown == Approx(1.10).epsilon(0.01));
}

TEST_CASE("three pairs give Student's interval of their log ratios", "[stats]") {
  // Log slow-downs 0.1, 0.2, 0.3: mean 0.2, half width 4.302653 * 0.1 / sqrt(3) = 0.248414.
  const GateResult result = judge_one({.before = {std::exp(0.1), std::exp(0.2), std::exp(0.3)}, .after = {1, 1, 1}});
  CHECK(result.slowdown == Approx(1.221403).epsilon(1e-6));
  CHECK(result.slowdown_low == Approx(0.952740).epsilon(1e-6));
  CHECK(result.slowdown_high == Approx(1.565826).epsilon(1e-6));
  CHECK(result.verdict == GateVerdict::inconclusive);
  CHECK_THAT(result.reason, Contains("more pairs are needed"));
}

TEST_CASE("several looks make each interval wider", "[stats]") {
  const GateResult one = judge_one(rates(0.97)), three = judge_one(rates(0.97), {.looks = 3});
  CHECK(three.slowdown_low < one.slowdown_low);
  CHECK(three.slowdown_high > one.slowdown_high);
}

TEST_CASE("launches with two modes get no verdict but their modes", "[stats]") {
  GateSamples samples;
  for (int i = 0; i < 8; ++i) {
    samples.before.push_back((i % 2 == 0 ? 230 : 550) + i);
    samples.after.push_back((i % 3 == 0 ? 230 : 550) + i);
  }
  const GateResult result = judge_one(samples);
  CHECK(result.verdict == GateVerdict::inconclusive);
  REQUIRE(result.modes);
  CHECK_THAT(result.reason, Contains("two modes"));
}

TEST_CASE("a change as large as the gap between modes is a change", "[stats]") {
  const GateResult result = judge_one(rates(0.4));
  CHECK_FALSE(result.modes);
  CHECK(result.verdict == GateVerdict::fail);
}

TEST_CASE("one launch far from all others is named", "[stats]") {
  GateSamples samples = rates(1.0, 16);
  samples.after[5] = 400;
  CHECK_THAT(judge_one(samples).reason, Contains("1 of 32 launches lies apart"));
}

TEST_CASE("samples that cannot be judged are inconclusive and say why", "[stats]") {
  CHECK_THAT(judge_one({}).reason, Contains("0 pairs are too few"));
  CHECK_THAT(judge_one({.before = {1, 1, 1, 1}, .after = {1, 1, 1}}).reason, Contains("do not pair"));
  CHECK_THAT(judge_one({.before = {1, 1, 0}, .after = {1, 1, 1}}).reason, Contains("launch 3 before is 0"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THAT(judge_one({.before = {1, 1, 1}, .after = {1, nan, 1}}).reason, Contains("launch 2 after is nan"));
  CHECK(judge_one({}).verdict == GateVerdict::inconclusive);
}

TEST_CASE("constant series are judged without any spread", "[stats]") {
  const std::vector<double> same(8, 100.0), slower(8, 90.0);
  CHECK(judge_one({.before = same, .after = same}).verdict == GateVerdict::pass);
  CHECK(judge_one({.before = same, .after = slower}).verdict == GateVerdict::fail);
}

TEST_CASE("how much sessions differ widens an unpaired interval", "[stats]") {
  GateSamples samples = rates(0.95);
  samples.paired = false;
  CHECK(judge_one(samples).verdict == GateVerdict::fail);
  CHECK(judge_one(samples, {.session_sd_ratio = 0.05}).verdict == GateVerdict::inconclusive);
}

TEST_CASE("the number of pairs is that of the shared table", "[stats]") {
  // Standard deviation of a pair, margin, pairs: from launches with 2%, 2%, 5%, 5% and 10%.
  CHECK(required_pairs(0.028, 0.03) == 8);
  CHECK(required_pairs(0.028, 0.02) == 15);
  CHECK(required_pairs(0.071, 0.03) == 37);
  CHECK(required_pairs(0.071, 0.05) == 15);
  CHECK(required_pairs(0.141, 0.05) == 52);
}

TEST_CASE("Holm rejects in order and stops at the first that is too high", "[stats]") {
  // Sorted 0.01, 0.02, 0.03, 0.04 against 0.05/4, 0.05/3, ...: the second, 0.02 > 0.0167, ends it.
  CHECK(holm(std::vector<double>{0.04, 0.01, 0.03, 0.02}, 0.05) == std::vector<bool>{false, true, false, false});
  // 0.01 <= 0.05/3, 0.02 <= 0.05/2, 0.04 <= 0.05.
  CHECK(holm(std::vector<double>{0.04, 0.01, 0.02}, 0.05) == std::vector<bool>{true, true, true});
  CHECK(holm({}, 0.05).empty());
}

TEST_CASE("a family is as good as its worst metric", "[stats]") {
  const GateResult pass{.verdict = GateVerdict::pass}, fail{.verdict = GateVerdict::fail},
      unknown{.verdict = GateVerdict::inconclusive}, faster{.verdict = GateVerdict::faster};
  CHECK(worst_verdict(std::vector{pass, unknown, fail}) == GateVerdict::fail);
  CHECK(worst_verdict(std::vector{pass, unknown, faster}) == GateVerdict::inconclusive);
  CHECK(worst_verdict(std::vector{pass, faster}) == GateVerdict::faster);
  CHECK(worst_verdict(std::vector{pass, pass}) == GateVerdict::pass);
  CHECK(worst_verdict({}) == GateVerdict::inconclusive);
}
