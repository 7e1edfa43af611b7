// How far a median or a mean of samples may lie from the truth.
#pragma once

#include <optional>
#include <span>

namespace mrb {

struct MedianInterval {
  double low = 0, high = 0;
  double confidence = 0;  // what these two samples really have, at least what was asked for
};

// Two of the samples between which the true median lies, whatever their distribution (exact, from the binomial
// distribution with 1/2; David and Nagaraja, Order Statistics, 7.1). None when the samples are too few: for 95% that
// is fewer than six.
std::optional<MedianInterval> median_interval(std::span<const double> samples, double confidence);

// A mean that a few wild samples cannot carry away, and how sure it is.
struct RobustMean {
  double mean = 0;
  double standard_error = 0;
  double degrees_of_freedom = 0;
};

// From ten samples on, the lowest and the highest tenth count as the next sample inwards (winsorised), and the
// standard error and degrees of freedom are those of Dixon and Tukey (Technometrics 10, 1968): s_w (n-1)/(h-1)/sqrt(n)
// and h-1, where h samples were left as they are. Of fewer, the plain mean. At least two samples, all finite.
RobustMean robust_mean(std::span<const double> samples);

// The bias-corrected bootstrap interval of robust_mean() (Efron, 1981): quantiles of the means of samples drawn again,
// moved by what their median misses the mean by. The draws are a function of `seed`. At least two samples.
struct Interval {
  double low = 0, high = 0;
};
Interval bootstrap_interval(std::span<const double> samples, double confidence, int resamples, unsigned seed);

}  // namespace mrb
