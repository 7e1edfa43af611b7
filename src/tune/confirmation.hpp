// The gain that is reported: from fresh launches of the finalists and the baseline, and from nothing else.
#pragma once

#include <vector>

namespace mrb {

// Of one finalist against the baseline, over blocks that hold a launch of each.
struct ConfirmedGain {
  int blocks = 0;
  double gain_ratio = 1;  // baseline's step time over the finalist's
  double gain_low = 0;    // holds for all finalists together with 95%: Student's t with Bonferroni's correction
  double gain_high = 0;
  double p_value = 1;  // one-sided: the chance of such a gain where there is none, times the finalists
  bool shown = false;  // p_value is below kFalseGainChance
};

// The search has already picked the fastest of hundreds, and the confirmation may pick between finalists: a gain is
// only declared when it would come by chance in less than one tuning in a hundred.
inline constexpr double kFalseGainChance = 0.01;

// One row of log step times per block: the baseline's, then each finalist's. Blocks and candidates add up, so the spread
// is that of what both leave of all launches of the confirmation, with (blocks - 1) x finalists degrees of freedom: the
// two-way layout, with a launch of each in every block. With fewer than two blocks the interval is 0 to infinity, and
// nothing is shown.
std::vector<ConfirmedGain> confirmed_gains(const std::vector<std::vector<double>>& blocks);

// How many blocks will show a gain of this size in four of five tunings; at most `blocks_max`.
int blocks_to_show(double log_gain, double noise_sd, int finalists, int blocks_min, int blocks_max);

}  // namespace mrb
