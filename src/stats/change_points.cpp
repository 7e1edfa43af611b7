#include "stats/change_points.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "stats/summary.hpp"

namespace mrb {

namespace {

struct Division {
  std::size_t index = 0;   // of the first sample of the second part
  double difference = -1;  // squared, of the means, times k (n - k) / n; -1: too few samples to divide
};

// `samples` have a mean of zero. Sums are updated from the left, so a division costs n additions.
Division sharpest(std::span<const double> samples, std::size_t part_min) {
  const double n = static_cast<double>(samples.size());
  Division best;
  double sum = 0;
  for (std::size_t k = 1; k + part_min <= samples.size(); ++k) {
    sum += samples[k - 1];
    if (k < part_min) continue;
    const double left = static_cast<double>(k);
    const double difference = sum * sum * n / (left * (n - left));
    if (difference > best.difference) best = {k, difference};
  }
  return best;
}

void shuffle(std::vector<double>& samples, Random& random) {
  for (std::size_t i = samples.size(); i > 1; --i) std::swap(samples[i - 1], samples[random.below(i)]);
}

// The share of shuffled series that divide as sharply. It ends once so many have been found that the share is known to be
// no small one (Besag and Clifford, Biometrika 78, 1991): a quiet series costs little, however small alpha is.
double chance_of(std::vector<double> samples, double difference, const ChangePolicy& policy) {
  constexpr int kEnough = 20;
  constexpr double kShufflesPerAlpha = 50;
  const int shuffles_max = static_cast<int>(std::min(std::ceil(kShufflesPerAlpha / policy.alpha), 1e6));
  const double rounding = 1e-9 * difference;
  Random random({policy.seed, Random::order, samples.size()});
  int as_sharp = 0;
  for (int shuffles = 1; shuffles <= shuffles_max; ++shuffles) {
    shuffle(samples, random);
    if (sharpest(samples, static_cast<std::size_t>(policy.segment_min)).difference < difference - rounding) continue;
    if (++as_sharp == kEnough) return static_cast<double>(as_sharp) / shuffles;
  }
  return (as_sharp + 1.0) / (shuffles_max + 1.0);  // the series itself is one of them
}

// Appends the changes of samples[begin, end) in ascending order.
void divide(std::span<const double> logs, std::size_t begin, std::size_t end, const ChangePolicy& policy,
            std::vector<ChangePoint>& changes) {
  std::vector<double> part(logs.begin() + static_cast<std::ptrdiff_t>(begin),
                           logs.begin() + static_cast<std::ptrdiff_t>(end));
  double mean = 0;
  for (const double log : part) mean += log / static_cast<double>(part.size());
  for (double& log : part) log -= mean;
  const Division division = sharpest(part, static_cast<std::size_t>(policy.segment_min));
  if (division.difference <= 0) return;
  const double p_value = chance_of(part, division.difference, policy);
  if (p_value > policy.alpha) return;
  divide(logs, begin, begin + division.index, policy, changes);
  changes.push_back({.index = static_cast<int>(begin + division.index), .p_value = p_value});
  divide(logs, begin + division.index, end, policy, changes);
}

double median_of(std::span<const double> samples, std::size_t begin, std::size_t end) {
  std::vector<double> sorted(samples.begin() + static_cast<std::ptrdiff_t>(begin),
                             samples.begin() + static_cast<std::ptrdiff_t>(end));
  std::sort(sorted.begin(), sorted.end());
  return quantile(sorted, 0.5);
}

// The medians around each change. Returns whether all changes are large enough; otherwise without the smallest, whose
// neighbours then have other medians.
bool set_levels(std::span<const double> samples, double change_ratio_min, std::vector<ChangePoint>& changes) {
  const auto size_of = [](const ChangePoint& change) {
    return std::abs(std::log(change.median_after / change.median_before));
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::size_t begin = i == 0 ? 0 : static_cast<std::size_t>(changes[i - 1].index);
    const std::size_t middle = static_cast<std::size_t>(changes[i].index);
    const std::size_t end = i + 1 == changes.size() ? samples.size() : static_cast<std::size_t>(changes[i + 1].index);
    changes[i].median_before = median_of(samples, begin, middle);
    changes[i].median_after = median_of(samples, middle, end);
  }
  const auto smallest = std::min_element(changes.begin(), changes.end(),
                                         [&](const auto& a, const auto& b) { return size_of(a) < size_of(b); });
  if (smallest == changes.end() || size_of(*smallest) >= std::log1p(change_ratio_min)) return true;
  changes.erase(smallest);
  return false;
}

}  // namespace

std::vector<ChangePoint> find_change_points(std::span<const double> samples, const ChangePolicy& policy) {
  std::vector<double> logs;
  for (const double sample : samples) logs.push_back(std::log(sample));
  refuse_unless_finite(logs);
  std::vector<ChangePoint> changes;
  divide(logs, 0, logs.size(), policy, changes);
  while (!set_levels(samples, policy.change_ratio_min, changes)) {
  }
  return changes;
}

int samples_to_show_a_change(const ChangePolicy& policy) {
  int n = 2 * policy.segment_min;
  while (true) {
    const double divisions = std::exp(std::lgamma(n + 1.0) - std::lgamma(n / 2 + 1.0) - std::lgamma(n - n / 2 + 1.0));
    if (2 / divisions <= policy.alpha) return n;
    ++n;
  }
}

std::optional<double> session_sd_ratio(std::span<const double> samples, std::span<const double> standard_errors) {
  constexpr std::size_t kRunsMin = 6;
  constexpr double kMedianOfNormal = 0.6745;  // of |x|, and a difference of two has a variance of 2
  if (samples.size() < kRunsMin) return std::nullopt;
  std::vector<double> steps;
  for (std::size_t i = 1; i < samples.size(); ++i) steps.push_back(std::abs(std::log(samples[i] / samples[i - 1])));
  refuse_unless_finite(steps);
  const double sd = median_of(steps, 0, steps.size()) / (kMedianOfNormal * std::sqrt(2.0));
  double explained = 0;
  for (const double error : standard_errors) explained += error * error / static_cast<double>(standard_errors.size());
  return std::sqrt(std::max(0.0, sd * sd - explained));
}

}  // namespace mrb
