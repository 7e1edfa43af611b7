// How much better each answer of a group was than the others.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace mrb {

// The unbiased standard deviation (divided by n - 1); exactly 0 for fewer than two values and when all are equal, so
// that it may be compared with 0.
double deviation(std::span<const double> values);

struct AdvantageScale {
  double eps = 0;              // added to the standard deviation
  double batch_deviation = 0;  // of all the step's rewards; only batch_std looks at it
};

// The kinds, with mu the group's mean reward, s its unbiased and s0 its population standard deviation:
//   grpo               (R - mu) / (s + eps)             Shao et al.: DeepSeekMath; verl, TRL
//   grpo_population    (R - mu) / (s0 + eps)
//   dr_grpo            R - mu                           Liu et al.: Understanding R1-Zero-like training
//   leave_one_out      R - mean of the others           Ahmadian et al.: Back to basics (RLOO)
//   leave_one_out_std  the same over (s of the others + eps), or undivided where the others are all alike   NeMo-RL
//   pass_at_k          best: (R - second best) / (s + eps), all others 0                                     verl
//   batch_std          (R - mu) / (s of the batch + eps)                                                     TRL
// A group of one is compared with mean 0 and deviation 1 by the first two, has no pass_at_k (validation says so), and
// has advantage 0 with the others. A group whose rewards are all equal has advantage 0.
std::vector<double> group_advantages(std::string_view kind, std::span<const double> rewards, const AdvantageScale&);

}  // namespace mrb
