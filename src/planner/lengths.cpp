#include "planner/lengths.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.hpp"

namespace mrb {

namespace {

struct LogNormal {
  double mu, sigma;
};

LogNormal parameters(const LengthDistribution& lengths) {
  const double sigma = std::sqrt(std::log1p(lengths.cv * lengths.cv));
  return {std::log(lengths.mean_tokens) - sigma * sigma / 2, sigma};
}

double normal_below(double z) {
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}

}  // namespace

double normal_quantile(double q) {
  constexpr double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                          1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01,
                          -1.328068155288572e+01};
  constexpr double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                          -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
  constexpr double low = 0.02425;
  if (q > 1 - low) return -normal_quantile(1 - q);
  if (q < low) {
    const double r = std::sqrt(-2 * std::log(q));
    return (((((c[0] * r + c[1]) * r + c[2]) * r + c[3]) * r + c[4]) * r + c[5]) /
           ((((d[0] * r + d[1]) * r + d[2]) * r + d[3]) * r + 1);
  }
  const double r = q - 0.5, s = r * r;
  return (((((a[0] * s + a[1]) * s + a[2]) * s + a[3]) * s + a[4]) * s + a[5]) * r /
         (((((b[0] * s + b[1]) * s + b[2]) * s + b[3]) * s + b[4]) * s + 1);
}

double LengthDistribution::quantile(double q) const {
  if (cv == 0) return std::min(mean_tokens, max_tokens);
  const auto [mu, sigma] = parameters(*this);
  return std::min(std::exp(mu + sigma * normal_quantile(q)), max_tokens);
}

// E[min(L, max)] of a lognormal L.
double LengthDistribution::mean_cut() const {
  if (cv == 0) return std::min(mean_tokens, max_tokens);
  const auto [mu, sigma] = parameters(*this);
  const double z = (std::log(max_tokens) - mu) / sigma;
  return mean_tokens * normal_below(z - sigma) + max_tokens * (1 - normal_below(z));
}

// E[min(L, max)^2]: as the mean, of L^2, which is lognormal too.
double LengthDistribution::mean_square_cut() const {
  if (cv == 0) return mean_cut() * mean_cut();
  const auto [mu, sigma] = parameters(*this);
  const double z = (std::log(max_tokens) - mu) / sigma;
  return mean_tokens * mean_tokens * (1 + cv * cv) * normal_below(z - 2 * sigma) +
         max_tokens * max_tokens * (1 - normal_below(z));
}

// The largest of n uniform numbers is below u with probability u^n: the mean over the middles of equal shares of it.
double LengthDistribution::longest_of(int count) const {
  constexpr int shares = 64;
  double sum = 0;
  for (int i = 0; i < shares; ++i) sum += quantile(std::pow((i + 0.5) / shares, 1.0 / count));
  return sum / shares;
}

double LengthDistribution::clip_ratio() const {
  if (cv == 0) return mean_tokens > max_tokens ? 1 : 0;
  const auto [mu, sigma] = parameters(*this);
  return 1 - normal_below((std::log(max_tokens) - mu) / sigma);
}

std::vector<double> sample_lengths(const LengthDistribution& lengths, int count, int group_size, std::uint64_t seed) {
  const auto [mu, sigma] = parameters(lengths);
  const double shared = std::sqrt(lengths.group_correlation), own = std::sqrt(1 - lengths.group_correlation);
  Random random{seed, Random::lengths};
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(count));
  double prompt = 0;
  for (int i = 0; i < count; ++i) {
    if (i % group_size == 0) prompt = random.normal();
    all.push_back(std::min(std::exp(mu + sigma * (shared * prompt + own * random.normal())), lengths.max_tokens));
  }
  return all;
}

double drain_s(std::span<const double> lengths, double weight, const std::function<double(double, double)>& step_s) {
  double seconds = 0, generated = 0;
  for (std::size_t ended = 0; ended < lengths.size(); ++ended) {
    const double alive = static_cast<double>(lengths.size() - ended) * weight;
    const double steps = lengths[ended] - generated;
    if (steps <= 0) continue;
    seconds += steps * step_s(alive, generated + steps / 2);
    generated = lengths[ended];
  }
  return seconds;
}

}  // namespace mrb
