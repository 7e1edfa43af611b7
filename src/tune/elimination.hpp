// Which candidates have been shown to be slower than the fastest, by launches that ran next to each other.
#pragma once

#include <span>
#include <vector>

#include "tune/surrogate.hpp"

namespace mrb {

struct Elimination {
  int candidate = 0;
  double slower_ratio = 1;  // its step time over the leader's
  int blocks = 0;           // that held both
  double p_value = 0;       // one-sided
};

// Paired t tests of log step times against `leader`, over the blocks that hold both, with one spread pooled over all
// pairs, as no pair is launched often enough to know its own. Holm's procedure holds the chance of any wrong
// elimination at one look below alpha / looks: the race looks after every block, and the sum is alpha. Nothing is
// eliminated while the spread has fewer than three degrees of freedom. The baseline, candidate 0, never is.
std::vector<Elimination> eliminate(std::span<const Observation>, int leader, double alpha, int looks);

}  // namespace mrb
