// From samples to the few numbers people read.
#pragma once

#include <span>

namespace mrb {

struct Summary {
  int count = 0;
  double median = 0;
  double mean = 0;
  double min = 0;
  double max = 0;
  double p95 = 0;
  double variation = 0;  // standard deviation (n - 1) over mean; 0 for fewer than two samples
};

// All zero for no samples. Throws Error(internal) for a sample that is not a finite number.
Summary summarize(std::span<const double> samples);

// Linear interpolation between the two closest ranks, so that the median of an even count is the mean of the middle
// two. `sorted` is ascending and not empty, q in [0, 1].
double quantile(std::span<const double> sorted, double q);

// Throws Error(internal) that says which sample is NaN or infinite. One such sample would make everything worked out
// from it meaningless, without a sign of it.
void refuse_unless_finite(std::span<const double> samples);

}  // namespace mrb
