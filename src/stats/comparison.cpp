#include "stats/comparison.hpp"

#include <cmath>
#include <numeric>

#include "stats/student.hpp"
#include "stats/summary.hpp"

namespace mrb {

std::string_view verdict_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::no_difference_shown:
      return "no difference shown";
    case Verdict::inconclusive:
      break;
  }
  return "inconclusive";
}

double student_t_975(int degrees_of_freedom) {
  return student_quantile(0.975, degrees_of_freedom);
}

RatioEstimate estimate_ratio(std::span<const double> log_ratios) {
  refuse_unless_finite(log_ratios);
  RatioEstimate estimate;
  estimate.blocks = static_cast<int>(log_ratios.size());
  if (log_ratios.empty()) return estimate;
  const auto count = static_cast<double>(log_ratios.size());
  const double mean = std::accumulate(log_ratios.begin(), log_ratios.end(), 0.0) / count;
  estimate.ratio = std::exp(mean);
  if (log_ratios.size() < 2) return estimate;
  double squares = 0;
  for (const double value : log_ratios) squares += (value - mean) * (value - mean);
  const double half_width = student_t_975(estimate.blocks - 1) * std::sqrt(squares / (count - 1) / count);
  estimate.low = std::exp(mean - half_width);
  estimate.high = std::exp(mean + half_width);
  estimate.verdict = estimate.low > 1    ? Verdict::faster
                     : estimate.high < 1 ? Verdict::slower
                                         : Verdict::no_difference_shown;
  return estimate;
}

}  // namespace mrb
