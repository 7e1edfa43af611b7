#include "stats/modes.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "stats/summary.hpp"

namespace mrb {

namespace {

// Within-group variance over total variance of every division of ascending logarithms at `split`.
class Division {
 public:
  explicit Division(const std::vector<double>& sorted) : sums_{0}, squares_{0} {
    for (const double value : sorted) {
      const double log = std::log(value / sorted.front());
      sums_.push_back(sums_.back() + log);
      squares_.push_back(squares_.back() + log * log);
    }
  }

  double inside_ratio(std::size_t split) const {
    const std::size_t n = sums_.size() - 1;
    const double total = spread(0, n);
    return total > 0 ? (spread(0, split) + spread(split, n)) / total : 1;
  }

 private:
  double spread(std::size_t begin, std::size_t end) const {
    const double sum = sums_[end] - sums_[begin];
    return squares_[end] - squares_[begin] - sum * sum / static_cast<double>(end - begin);
  }

  std::vector<double> sums_, squares_;  // of the first i
};

TwoModes modes_at(std::span<const double> sorted, std::size_t split) {
  return {.low_count = static_cast<int>(split),
          .high_count = static_cast<int>(sorted.size() - split),
          .low_median = quantile(sorted.first(split), 0.5),
          .high_median = quantile(sorted.subspan(split), 0.5)};
}

constexpr double kHigherMin = 1.1;

// The best division of positive samples into two groups of at least `group_min`, when it leaves little inside them.
std::optional<TwoModes> divide(std::vector<double> samples, std::size_t samples_min, std::size_t group_min) {
  constexpr double kInsideMax = 0.1;
  if (samples.size() < samples_min) return std::nullopt;
  std::sort(samples.begin(), samples.end());
  if (samples.front() <= 0) return std::nullopt;
  const Division division(samples);
  std::size_t split = group_min;
  for (std::size_t i = group_min; i + group_min <= samples.size(); ++i) {
    if (division.inside_ratio(i) < division.inside_ratio(split)) split = i;
  }
  const TwoModes modes = modes_at(samples, split);
  const bool apart = modes.high_median >= kHigherMin * modes.low_median;
  return apart && division.inside_ratio(split) < kInsideMax ? std::optional(modes) : std::nullopt;
}

std::optional<TwoModes> modes_of_side(std::span<const double> side) {
  if (const auto modes = find_two_modes(side)) return modes;
  return divide({side.begin(), side.end()}, 8, 3);
}

}  // namespace

std::optional<TwoModes> find_two_modes(std::span<const double> samples) {
  constexpr std::size_t kSamplesMin = 6, kGroupMin = 2;
  constexpr double kGapToWidth = 4;
  if (samples.size() < kSamplesMin) return std::nullopt;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front() <= 0) return std::nullopt;

  const auto log_ratio = [&](std::size_t low, std::size_t high) { return std::log(sorted[high] / sorted[low]); };
  std::size_t split = kGroupMin;  // the first of the higher group
  for (std::size_t i = kGroupMin; i + kGroupMin <= sorted.size(); ++i) {
    if (log_ratio(i - 1, i) > log_ratio(split - 1, split)) split = i;
  }
  const double width = std::max(log_ratio(0, split - 1), log_ratio(split, sorted.size() - 1));
  const TwoModes modes = modes_at(sorted, split);
  if (log_ratio(split - 1, split) <= kGapToWidth * width || modes.high_median < kHigherMin * modes.low_median) {
    return std::nullopt;
  }
  return modes;
}

std::optional<ModesOverSides> find_modes_over_sides(std::span<const double> before, std::span<const double> after) {
  constexpr double kSideShare = 0.8;
  std::vector<double> all(before.begin(), before.end());
  all.insert(all.end(), after.begin(), after.end());
  const auto together = divide(all, 12, 3);
  if (together) {
    const double between = std::sqrt(together->low_median * together->high_median);
    const auto high_share = [&](std::span<const double> side) {
      const auto high = std::count_if(side.begin(), side.end(), [&](double value) { return value > between; });
      return static_cast<double>(high) / static_cast<double>(side.size());
    };
    const double difference = std::abs(high_share(before) - high_share(after));
    if (difference == 1) return std::nullopt;
    return ModesOverSides{*together, difference >= kSideShare};
  }
  if (const auto modes = modes_of_side(before)) return ModesOverSides{*modes};
  if (const auto modes = modes_of_side(after)) return ModesOverSides{*modes};
  return std::nullopt;
}

}  // namespace mrb
