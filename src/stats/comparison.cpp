#include "stats/comparison.hpp"

#include <cmath>
#include <numeric>

#include "stats/summary.hpp"

namespace mrb {

namespace {

// The continued fraction of the incomplete beta function (Lentz's method; Abramowitz and Stegun 26.5.8).
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), result = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    result *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return result;
}

// The chance that a variable with Student's distribution is above t > 0.
double student_tail(double t, double degrees) {
  const double a = degrees / 2, b = 0.5, x = degrees / (degrees + t * t);
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  const double incomplete =
      x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a : 1 - front * beta_fraction(1 - x, b, a) / b;
  return incomplete / 2;
}

}  // namespace

std::string_view verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::no_difference_shown:
      return "no difference shown";
    case Verdict::inconclusive:
      break;
  }
  return "inconclusive";
}

double student_t_975(int degrees_of_freedom) {
  double low = 1, high = 13;  // 12.706 at one degree of freedom is the largest
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_tail(middle, degrees_of_freedom) > 0.025 ? low : high) = middle;
  }
  return low;
}

RatioEstimate estimate_ratio(std::span<const double> log_ratios) {
  refuse_unless_finite(log_ratios);
  RatioEstimate estimate;
  estimate.blocks = static_cast<int>(log_ratios.size());
  if (log_ratios.empty()) return estimate;
  const auto count = static_cast<double>(log_ratios.size());
  const double mean = std::accumulate(log_ratios.begin(), log_ratios.end(), 0.0) / count;
  estimate.ratio = std::exp(mean);
  if (log_ratios.size() < 2) return estimate;
  double squares = 0;
  for (const double value : log_ratios) squares += (value - mean) * (value - mean);
  const double half_width = student_t_975(estimate.blocks - 1) * std::sqrt(squares / (count - 1) / count);
  estimate.low = std::exp(mean - half_width);
  estimate.high = std::exp(mean + half_width);
  estimate.verdict = estimate.low > 1    ? Verdict::faster
                     : estimate.high < 1 ? Verdict::slower
                                         : Verdict::no_difference_shown;
  return estimate;
}

}  // namespace mrb
