// Two sides launched in turn until a verdict stands: the design that drift and busy neighbours hurt least.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace mrb {

enum class Side { before, after };
std::string_view side_text(Side);

struct AbPlan {
  std::vector<int> looks;   // after so many pairs the verdict is asked for; even, ascending. The last ends it
  std::uint64_t seed = 1;   // decides which side begins each block
  double time_limit_s = 0;  // begins no block after this; 0: no limit
};

// With several ranks all of these are collective, and what they return is equal on all ranks.
struct AbHooks {
  std::function<void(Side, int pair)> launch;
  std::function<bool(int pairs)> decided;   // at a look
  std::function<double(double)> agree_max;  // the largest of all ranks' values
  std::function<bool()> interrupted;
};

enum class AbEnd { decided, undecided, time_limit, interrupted };

struct AbOutcome {
  AbEnd end = AbEnd::undecided;
  int pairs = 0;
};

// Blocks of two pairs in the order A B B A, or B A A B, so that what drifts hits both sides alike. The n-th launch of
// one side and of the other are a pair, next to each other in time.
AbOutcome run_ab(const AbPlan&, const Clock&, const AbHooks&);

// The order of one block.
std::vector<Side> ab_block(std::uint64_t seed, int block);

}  // namespace mrb
