// From which sample on a series is steady: warm-up is measured, not assumed.
#pragma once

#include <optional>
#include <span>

namespace mrb {

// How many samples to leave out at the beginning: the number that makes the standard error of the mean of the rest
// smallest (MSER; White, Simulation 69, 1997). None when that is more than half of them, or when there are fewer than
// four: then the series has not become steady.
std::optional<int> steady_from(std::span<const double> samples);

}  // namespace mrb
