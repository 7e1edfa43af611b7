#include "tune/confirmation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "stats/student.hpp"

namespace mrb {

ConfirmedGain confirmed_gain(const std::vector<double>& log_gains, int finalists) {
  ConfirmedGain result;
  result.blocks = static_cast<int>(log_gains.size());
  result.gain_high = INFINITY;
  if (log_gains.empty()) return result;
  const auto count = static_cast<double>(log_gains.size());
  const double mean = std::accumulate(log_gains.begin(), log_gains.end(), 0.0) / count;
  result.gain_ratio = std::exp(mean);
  if (log_gains.size() < 2) return result;
  double squares = 0;
  for (const double log_gain : log_gains) squares += (log_gain - mean) * (log_gain - mean);
  const double standard_error = std::sqrt(squares / (count - 1) / count);
  const double half_width = student_quantile(1 - 0.025 / finalists, count - 1) * standard_error;
  result.gain_low = std::exp(mean - half_width);
  result.gain_high = std::exp(mean + half_width);
  if (standard_error > 0) {
    result.p_value = std::min(1.0, finalists * student_upper_tail(mean / standard_error, count - 1));
  } else {
    result.p_value = mean > 0 ? 0 : 1;
  }
  result.shown = result.p_value < kFalseGainChance;
  return result;
}

int blocks_to_show(double log_gain, double noise_sd, int finalists, int blocks_min, int blocks_max) {
  const double pair_sd = noise_sd * std::numbers::sqrt2;
  for (int blocks = blocks_min; blocks < blocks_max; ++blocks) {
    const double t = student_quantile(1 - kFalseGainChance / finalists, blocks - 1);
    if (log_gain * std::sqrt(blocks) >= (t + 0.84) * pair_sd) return blocks;
  }
  return std::max(blocks_min, blocks_max);
}

}  // namespace mrb
