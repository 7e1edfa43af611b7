#include "planner/fit.hpp"

#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("samples made from coefficients give those coefficients back", "[planner]") {
  std::vector<FitSample> samples;
  for (const double bytes_s : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2}) {
    samples.push_back({.measured_s = 3 * 35e-6 + 1.25 * bytes_s, .physical_s = {35e-6, bytes_s}});
  }
  const Fit fit = fit_samples(samples);
  CHECK(fit.coefficients[0] == Approx(3).epsilon(1e-4));
  CHECK(fit.coefficients[1] == Approx(1.25).epsilon(1e-4));
}

TEST_CASE("no term becomes negative, even where that would fit better", "[planner]") {
  const std::vector<FitSample> samples = {{.measured_s = 1, .physical_s = {1, 1}},
                                          {.measured_s = 1.5, .physical_s = {2, 3}}};
  for (const double coefficient : fit_samples(samples).coefficients) CHECK(coefficient >= 0);
}

TEST_CASE("a factor is learned from its samples but never trusts a single one fully", "[planner]") {
  std::vector<FitSample> samples(20, {.measured_s = 1, .physical_s = {1}});
  samples.push_back({.measured_s = 2, .physical_s = {1}, .effects = {"slow"}});
  const Fit fit = fit_samples(samples);
  const double factor = fit.predict_s({.physical_s = {1}, .effects = {"slow"}}) / fit.predict_s({.physical_s = {1}});
  CHECK(factor > 1.2);
  CHECK(factor < 1.6);
  CHECK(fit.predict_s({.physical_s = {1}, .effects = {"never seen"}}) == fit.predict_s({.physical_s = {1}}));
}
