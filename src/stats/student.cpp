#include "stats/student.hpp"

#include <cmath>

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

// The chance that a variable with Student's distribution is above t, which is not negative.
double positive_tail(double t, double degrees) {
  const double a = degrees / 2, b = 0.5, x = degrees / (degrees + t * t);
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  const double incomplete =
      x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a : 1 - front * beta_fraction(1 - x, b, a) / b;
  return incomplete / 2;
}

}  // namespace

double student_upper_tail(double t, double degrees_of_freedom) {
  if (std::isinf(t)) return t > 0 ? 0 : 1;
  if (t == 0) return 0.5;
  return t > 0 ? positive_tail(t, degrees_of_freedom) : 1 - positive_tail(-t, degrees_of_freedom);
}

double student_quantile(double chance, double degrees_of_freedom) {
  if (chance < 0.5) return -student_quantile(1 - chance, degrees_of_freedom);
  double low = 0, high = 1;
  while (student_upper_tail(high, degrees_of_freedom) > 1 - chance) high *= 2;
  for (double middle = (low + high) / 2; low < middle && middle < high; middle = (low + high) / 2) {
    (student_upper_tail(middle, degrees_of_freedom) > 1 - chance ? low : high) = middle;
  }
  return low;
}

}  // namespace mrb
