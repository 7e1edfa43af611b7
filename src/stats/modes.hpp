// Launches of one program sometimes fall into two groups, each steady in itself; their mean is then no launch's time.
#pragma once

#include <optional>
#include <span>

namespace mrb {

struct TwoModes {
  int low_count = 0, high_count = 0;
  double low_median = 0, high_median = 0;
};

// Two modes, when the widest gap between neighbouring samples splits them into two groups of at least two, the higher
// is at least a tenth above the lower, and the gap is more than four times as wide as either group. All in logarithms,
// so of positive samples, and of at least six: of fewer nothing can be said. Six to forty samples of one normal
// distribution are taken for two modes in less than 1% of cases (tests/stats/modes_test.cpp).
std::optional<TwoModes> find_two_modes(std::span<const double> samples);

// Modes of the launches of a comparison.
struct ModesOverSides {
  TwoModes modes;
  bool are_sides = false;  // four in five launches of one side lie in one group, of the other in the other: a change
};

// Two modes that the launches before, those after, or all of them together fall into: as above, or when the best
// division into two groups leaves less than a tenth of the variance inside them (a normal distribution leaves 0.36) and
// the higher group is at least a tenth above the lower. A side needs eight launches and two in a group for this, both
// together twelve and three. Not told of groups that are exactly the sides.
std::optional<ModesOverSides> find_modes_over_sides(std::span<const double> before, std::span<const double> after);

}  // namespace mrb
