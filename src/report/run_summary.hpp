// What reports show of a stored run: medians, intervals, verdicts and phases of each variant, worked out from its samples.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/stored_run.hpp"
#include "stats/comparison.hpp"
#include "stats/intervals.hpp"

namespace mrb {

// Mean time of a phase in a counted step, the mean of all ranks: these add up to the step.
struct PhaseSummary {
  std::string name;
  double ms_mean = 0;
  double ms_low = 0, ms_high = 0;  // 95% interval over launches (Student's); equal to the mean when there is one launch
  double ms_slowest = 0, ms_fastest = 0;  // mean of the slowest and of the fastest rank
};

struct VariantSummary {
  const StoredCell* cell = nullptr;
  int launches = 0, steps = 0;
  double tokens_per_s_median = 0;
  std::optional<MedianInterval> tokens_per_s_interval;  // 95% or more; none of fewer than six launches
  double variation_launches_ratio = 0;                  // standard deviation of launches' tokens/s over their mean
  double step_ms_median = 0, step_ms_p99 = 0;           // over all counted steps
  double logical_bytes = 0, wire_bytes = 0;             // of a mean step, all ranks
  PhaseSummary step;                                    // the whole, wall time of the slowest rank
  std::vector<PhaseSummary> phases;                     // longest first
  std::optional<RatioEstimate> against_baseline;        // none of the baseline, and where it has none
  std::string verdict;                                  // in words, also where there are no numbers
};

// Of every cell, in the run's order. Pointers are into `run`.
std::vector<VariantSummary> summarize_run(const StoredRun& run);

// "libfabric (shm)"; "-" without a launch.
std::string carried_by(const StoredCell&);

}  // namespace mrb
