// How long answers are, and what their tail costs.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace mrb {

// Lognormal, cut off at the longest answer allowed. Lengths in tokens.
struct LengthDistribution {
  double mean_tokens = 1024;  // before the cut
  double cv = 0.75;           // standard deviation over mean, before the cut; 0: all alike
  double max_tokens = 8192;
  double group_correlation = 0.5;  // of log length, between answers to the same prompt

  double quantile(double q) const;     // 0 < q < 1
  double mean_cut() const;             // mean after the cut
  double mean_square_cut() const;      // E[L^2] after the cut
  double longest_of(int count) const;  // expected longest of so many that do not depend on each other
  double clip_ratio() const;           // share of answers that are cut
};

// `count` answers in groups of `group_size`, the same for the same seed.
std::vector<double> sample_lengths(const LengthDistribution&, int count, int group_size, std::uint64_t seed);

// Seconds until the last answer of a wave is there, without refill: as answers end, fewer are decoded at once.
// `lengths` ascending, each standing for `weight` answers. `step_s` is asked for the time of one step of so many
// sequences with so many generated tokens each.
double drain_s(std::span<const double> lengths, double weight,
               const std::function<double(double sequences, double generated)>& step_s);

// The value below which a standard normal variable is with probability q (Acklam's approximation, error below 2e-9
// relative).
double normal_quantile(double q);

}  // namespace mrb
