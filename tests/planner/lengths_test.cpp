#include "planner/lengths.hpp"

#include <algorithm>
#include <numeric>

#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("a draining wave takes its steps at the size that is left", "[planner]") {
  // 12 answers of 100 tokens, 4 of 400, a step of n takes .010 + .0005 n: 100 t(16) + 300 t(4) = 5.4 s.
  std::vector<double> lengths(12, 100);
  lengths.insert(lengths.end(), 4, 400);
  CHECK(drain_s(lengths, 1, [](double n, double) { return .010 + .0005 * n; }) == Approx(5.4));
}

TEST_CASE("quantiles of the normal distribution are those of tables", "[planner]") {
  CHECK(normal_quantile(.5) == Approx(0).margin(1e-12));
  CHECK(normal_quantile(.975) == Approx(1.959963985).epsilon(1e-8));
  CHECK(normal_quantile(.001) == Approx(-3.090232306).epsilon(1e-8));
}

TEST_CASE("sampled lengths have the mean, the cut and the clip ratio that the formulas say", "[planner]") {
  const LengthDistribution lengths{.mean_tokens = 1000, .cv = 1, .max_tokens = 3000, .group_correlation = .5};
  const auto all = sample_lengths(lengths, 200000, 8, 7);
  const double mean = std::accumulate(all.begin(), all.end(), 0.0) / 200000;
  const auto cut = std::count(all.begin(), all.end(), 3000.0);
  CHECK(mean == Approx(lengths.mean_cut()).epsilon(.02));
  CHECK(static_cast<double>(cut) / 200000 == Approx(lengths.clip_ratio()).epsilon(.05));
  CHECK(sample_lengths(lengths, 64, 8, 7) == sample_lengths(lengths, 64, 8, 7));
  CHECK(lengths.mean_cut() < 1000);
}

TEST_CASE("lengths that do not vary are all the mean", "[planner]") {
  const LengthDistribution alike{.mean_tokens = 500, .cv = 0, .max_tokens = 800};
  CHECK(alike.quantile(.99) == 500);
  CHECK(alike.mean_cut() == 500);
  CHECK(alike.clip_ratio() == 0);
}
