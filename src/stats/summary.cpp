#include "stats/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.hpp"

namespace mrb {

Summary summarize(std::span<const double> samples) {
  refuse_unless_finite(samples);
  Summary summary;
  summary.count = static_cast<int>(samples.size());
  if (samples.empty()) return summary;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  summary.median = quantile(sorted, 0.5);
  summary.p95 = quantile(sorted, 0.95);
  summary.min = sorted.front();
  summary.max = sorted.back();
  const auto count = static_cast<double>(sorted.size());
  summary.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  if (sorted.size() > 1 && summary.mean != 0) {
    double squares = 0;
    for (const double sample : sorted) squares += (sample - summary.mean) * (sample - summary.mean);
    summary.variation = std::sqrt(squares / (count - 1)) / summary.mean;
  }
  return summary;
}

double quantile(std::span<const double> sorted, double q) {
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const auto above = static_cast<std::size_t>(std::ceil(position));
  const double fraction = position - std::floor(position);
  return sorted[below] * (1 - fraction) + sorted[above] * fraction;
}

void refuse_unless_finite(std::span<const double> samples) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (std::isfinite(samples[i])) continue;
    throw Error(ErrorKind::internal, fmt::format("sample {} of {} is {}", i + 1, samples.size(), samples[i]),
                "this is a bug; report it with the command that shows it");
  }
}

}  // namespace mrb
