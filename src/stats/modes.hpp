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

}  // namespace mrb
