#include "tune/confirmation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "stats/student.hpp"

namespace mrb {

std::vector<ConfirmedGain> confirmed_gains(const std::vector<std::vector<double>>& blocks) {
  if (blocks.empty()) return {};
  const std::size_t arms = blocks[0].size();
  const auto count = static_cast<double>(blocks.size());
  std::vector<double> arm_mean(arms), block_mean;
  for (const std::vector<double>& block : blocks) {
    for (std::size_t arm = 0; arm < arms; ++arm) arm_mean[arm] += block[arm] / count;
    block_mean.push_back(std::accumulate(block.begin(), block.end(), 0.0) / static_cast<double>(arms));
  }
  const double mean = std::accumulate(arm_mean.begin(), arm_mean.end(), 0.0) / static_cast<double>(arms);
  double squares = 0;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (std::size_t arm = 0; arm < arms; ++arm) {
      const double left = blocks[b][arm] - arm_mean[arm] - block_mean[b] + mean;
      squares += left * left;
    }
  }

  const auto finalists = static_cast<double>(arms - 1);
  const double degrees_of_freedom = (count - 1) * finalists;
  std::vector<ConfirmedGain> gains(arms - 1);
  for (std::size_t f = 0; f < gains.size(); ++f) {
    const double log_gain = arm_mean[0] - arm_mean[f + 1];
    gains[f].blocks = static_cast<int>(blocks.size());
    gains[f].gain_ratio = std::exp(log_gain);
    gains[f].gain_high = INFINITY;
    if (blocks.size() < 2) continue;
    const double standard_error = std::sqrt(squares / degrees_of_freedom * 2 / count);
    const double half_width = student_quantile(1 - 0.025 / finalists, degrees_of_freedom) * standard_error;
    gains[f].gain_low = std::exp(log_gain - half_width);
    gains[f].gain_high = std::exp(log_gain + half_width);
    const double chance =
        standard_error > 0 ? student_upper_tail(log_gain / standard_error, degrees_of_freedom) : (log_gain > 0 ? 0 : 1);
    gains[f].p_value = std::min(1.0, finalists * chance);
    gains[f].shown = gains[f].p_value < kFalseGainChance;
  }
  return gains;
}

int blocks_to_show(double log_gain, double noise_sd, int finalists, int blocks_min, int blocks_max) {
  const double pair_sd = noise_sd * std::numbers::sqrt2;
  for (int blocks = blocks_min; blocks < blocks_max; ++blocks) {
    const double t = student_quantile(1 - kFalseGainChance / finalists, (blocks - 1) * finalists);
    if (log_gain * std::sqrt(blocks) >= (t + 0.84) * pair_sd) return blocks;
  }
  return std::max(blocks_min, blocks_max);
}

}  // namespace mrb
