#include "stats/intervals.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.hpp"
#include "stats/student.hpp"
#include "stats/summary.hpp"

namespace mrb {

namespace {

std::vector<double> ascending(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// Student's distribution with so many degrees of freedom is the normal one, to seven digits.
constexpr double kNormal = 1e8;

double normal_below(double z) {
  return std::erfc(-z / std::sqrt(2.0)) / 2;
}

}  // namespace

std::optional<MedianInterval> median_interval(std::span<const double> samples, double confidence) {
  refuse_unless_finite(samples);
  const auto sorted = ascending(samples);
  const auto n = static_cast<double>(sorted.size());
  // The k-th lowest and the k-th highest miss the median when fewer than k samples lie on one side of it.
  double below = 0;  // the chance of that, for one side
  std::optional<MedianInterval> narrowest;
  for (std::size_t k = 1; 2 * k <= sorted.size(); ++k) {
    const auto lost = static_cast<double>(k - 1);
    below += std::exp(std::lgamma(n + 1) - std::lgamma(lost + 1) - std::lgamma(n - lost + 1) - n * std::log(2.0));
    if (1 - 2 * below < confidence) break;
    narrowest = MedianInterval{sorted[k - 1], sorted[sorted.size() - k], 1 - 2 * below};
  }
  return narrowest;
}

RobustMean robust_mean(std::span<const double> samples) {
  refuse_unless_finite(samples);
  constexpr std::size_t kSamplesMin = 10;
  auto sorted = ascending(samples);
  const std::size_t cut = sorted.size() >= kSamplesMin ? sorted.size() / 10 : 0;
  for (std::size_t i = 0; i < cut; ++i) {
    sorted[i] = sorted[cut];
    sorted[sorted.size() - 1 - i] = sorted[sorted.size() - 1 - cut];
  }
  const auto n = static_cast<double>(sorted.size()), kept = static_cast<double>(sorted.size() - 2 * cut);
  RobustMean result;
  result.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  double squares = 0;
  for (const double value : sorted) squares += (value - result.mean) * (value - result.mean);
  result.standard_error = std::sqrt(squares / (n - 1)) * (n - 1) / (kept - 1) / std::sqrt(n);
  result.degrees_of_freedom = kept - 1;
  return result;
}

Interval bootstrap_interval(std::span<const double> samples, double confidence, int resamples, unsigned seed) {
  const double centre = robust_mean(samples).mean;
  Random random({seed, Random::order});
  std::vector<double> means, drawn(samples.size());
  double lower = 0;  // of the resampled means; half of those that are equal
  for (int i = 0; i < resamples; ++i) {
    for (double& value : drawn) value = samples[random.below(samples.size())];
    means.push_back(robust_mean(drawn).mean);
    lower += means.back() < centre ? 1 : means.back() == centre ? 0.5 : 0;
  }
  std::sort(means.begin(), means.end());
  const double share = std::clamp(lower / resamples, 0.5 / resamples, 1 - 0.5 / resamples);
  const double bias = student_quantile(share, kNormal), z = student_quantile((1 + confidence) / 2, kNormal);
  return {quantile(means, normal_below(2 * bias - z)), quantile(means, normal_below(2 * bias + z))};
}

}  // namespace mrb
