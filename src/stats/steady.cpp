#include "stats/steady.hpp"

#include "stats/summary.hpp"

namespace mrb {

std::optional<int> steady_from(std::span<const double> samples) {
  refuse_unless_finite(samples);
  constexpr std::size_t kSamplesMin = 4, kRestMin = 2;
  if (samples.size() < kSamplesMin) return std::nullopt;
  std::optional<std::size_t> best;
  double best_error = 0;
  double count = 0, mean = 0, squares = 0;  // of the rest, which grows from the end (Welford)
  for (std::size_t left_out = samples.size(); left_out-- > 0;) {
    const double delta = samples[left_out] - mean;
    count += 1;
    mean += delta / count;
    squares += delta * (samples[left_out] - mean);
    const double error = squares / (count * count);
    if (count < static_cast<double>(kRestMin) || (best && error > best_error)) continue;
    best = left_out;  // of equals, the one that leaves out least
    best_error = error;
  }
  if (*best > samples.size() / 2) return std::nullopt;
  return static_cast<int>(*best);
}

}  // namespace mrb
