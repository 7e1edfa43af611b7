// Where a series of runs over weeks came to another level: what no comparison of two runs can see, because each of
// them is within its margin of the one before.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mrb {

struct ChangePoint {
  int index = 0;             // of the first sample of the new level
  double median_before = 0;  // of the samples since the change before this one, or since the beginning
  double median_after = 0;   // and up to the next one, or the end
  double p_value = 1;        // of the first test that showed it
};

struct ChangePolicy {
  double alpha = 0.05;             // the chance of a change point in a series that has none
  int segment_min = 3;             // samples between two changes, and before and after; one wild run is no change
  double change_ratio_min = 0.01;  // smaller changes are not told of
  std::uint64_t seed = 1;
};

// The changes of level of positive samples in the order of time, ascending. Of their logarithms, the division that
// differs most in its means (weighted by k (n - k) / n) is compared with the same of shuffled series; when at most alpha
// of those differ as much, it is a change, and both parts are looked at in the same way (binary segmentation with a
// permutation test, as in Matteson and James, J. Am. Stat. Assoc. 109, 2014). Whatever the distribution of a run,
// shuffling keeps alpha, as long as runs do not depend on each other. Throws Error(internal) for a sample that is not
// positive and finite.
std::vector<ChangePoint> find_change_points(std::span<const double> samples, const ChangePolicy& = {});

// How long a series must be before any change could be shown: of so many runs, 2 / (n over n/2) is at most alpha, the
// share of shuffled series that divide as the sharpest change does.
int samples_to_show_a_change(const ChangePolicy& = {});

// How much runs on different days differ from each other beyond what their own launches explain: the standard deviation
// of the logarithms of their true levels. From successive differences, so that a change of level counts once: their
// median over 0.954 (of normal samples), less the mean variance of `standard_errors`. None of fewer than six runs.
std::optional<double> session_sd_ratio(std::span<const double> samples, std::span<const double> standard_errors);

}  // namespace mrb
