// The runs of one machine and work over weeks: where they came to another level, how much days differ, and how a new
// run compares with them.
#pragma once

#include <string>
#include <vector>

#include "report/baseline_store.hpp"
#include "report/run_comparison.hpp"
#include "stats/change_points.hpp"

namespace mrb {

struct MetricHistory {
  std::string cell;    // the variant's label
  std::string metric;  // "tokens_per_s", "step_ms_p99"
  Better better = Better::higher;
  std::vector<double> medians;          // of each run's launches
  std::vector<double> standard_errors;  // of their mean logarithm
  std::vector<ChangePoint> changes;     // each with its share of alpha

  bool is_slower(const ChangePoint&) const;
};

struct BaselineHistory {
  BaselineSeries series;
  std::vector<StoredRun> runs;  // the last ones, oldest first, without their steps' phases
  int runs_before = 0;          // older ones that were not looked at
  int baseline_index = -1;      // of the baseline's run in `runs`
  int runs_needed = 0;          // before any change could be shown
  std::vector<MetricHistory> metrics;
};

// Of the last `runs_max` runs. alpha is divided over the metrics of all variants (Bonferroni), so that it is the chance
// of any false change in a history without one.
BaselineHistory history_of(const BaselineStore&, const BaselineSeries&, int runs_max, const ChangePolicy&);

// Whether a metric became slower after the baseline. What lies before it was accepted when it was promoted.
bool became_slower(const BaselineHistory&);

std::string history_text(const BaselineHistory&);

// One line per series.
std::string baseline_list(const BaselineStore&);

// compare_runs() of the baseline and a later run, whose interval is widened by how much the runs of this history differ
// from day to day, unless `options` say how much that is; the answer says by how much. Throws Error(not_comparable) when
// there is no baseline of this run's machine and work, naming what there is instead.
RunComparison compare_with_baseline(const BaselineStore&, const StoredRun& run, ComparisonOptions options);

}  // namespace mrb
