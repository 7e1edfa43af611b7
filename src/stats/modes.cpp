#include "stats/modes.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "stats/summary.hpp"

namespace mrb {

std::optional<TwoModes> find_two_modes(std::span<const double> samples) {
  constexpr std::size_t kSamplesMin = 6, kGroupMin = 2;
  constexpr double kGapToWidth = 4, kHigherMin = 1.1;
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
  const TwoModes modes{.low_count = static_cast<int>(split),
                       .high_count = static_cast<int>(sorted.size() - split),
                       .low_median = quantile(std::span(sorted).first(split), 0.5),
                       .high_median = quantile(std::span(sorted).subspan(split), 0.5)};
  if (log_ratio(split - 1, split) <= kGapToWidth * width || modes.high_median < kHigherMin * modes.low_median) {
    return std::nullopt;
  }
  return modes;
}

}  // namespace mrb
