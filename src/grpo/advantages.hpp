// How much better each answer of a group was than the others.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace mrb {

// The kinds, with mu the group's mean reward, s its unbiased and s0 its population standard deviation:
//   grpo             (R - mu) / (s + eps)          Shao et al.: DeepSeekMath
//   grpo_population  (R - mu) / (s0 + eps)
//   dr_grpo          R - mu                        Liu et al.: Understanding R1-Zero-like training
//   leave_one_out    R - mean of the others        Ahmadian et al.: Back to basics (RLOO)
// A group of one is compared with mean 0 and deviation 1 by the first two, and has advantage 0 with the last two.
// A group whose rewards are all equal has advantage 0.
std::vector<double> group_advantages(std::string_view kind, std::span<const double> rewards, double eps);

}  // namespace mrb
