// By how much one variant differs from another, and how sure that is.
#pragma once

#include <limits>
#include <span>
#include <string_view>

namespace mrb {

enum class Verdict { faster, slower, no_difference_shown, inconclusive };

std::string_view verdict_text(Verdict);

// The ratio of throughputs, variant over baseline: 1.10 is 10% more tokens per second.
struct RatioEstimate {
  double ratio = 1;
  double low = 0;  // 95% interval; 0 to infinity when there are fewer than two blocks
  double high = std::numeric_limits<double>::infinity();
  int blocks = 0;
  Verdict verdict = Verdict::inconclusive;
};

// Log ratios, one per block, each from launches that ran next to each other, so that drift hits both sides alike.
// Student's t interval of their mean, taken back through exp. faster or slower when the interval excludes 1;
// inconclusive with fewer than two blocks; otherwise no difference shown. Throws Error(internal) for a ratio that is
// not a finite number.
RatioEstimate estimate_ratio(std::span<const double> log_ratios);

// The two-sided 97.5% quantile of Student's t with this many degrees of freedom (at least 1).
double student_t_975(int degrees_of_freedom);

}  // namespace mrb
