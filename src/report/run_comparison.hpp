// Two stored runs side by side: which of their variants became slower, faster, or cannot be told.
#pragma once

#include <string>
#include <vector>

#include "report/stored_run.hpp"
#include "stats/gate.hpp"

namespace mrb {

// What is gated, by how much it may change, and how sure a verdict must be.
struct ComparisonOptions {
  double throughput_margin_ratio = 0.03;
  double step_margin_ratio = 0.05;  // of the 99th percentile of the step's time
  bool allow_mismatch = false;      // compare although machines or cells differ; the differences are then warnings
  GatePolicy policy;
};

struct MetricComparison {
  std::string cell;              // the variant's label
  std::string metric;            // "tokens_per_s", "step_ms_p99"
  double before = 0, after = 0;  // median launch
  double margin_ratio = 0;
  GateResult result;
};

struct RunComparison {
  std::string before_id, after_id;
  bool paired = false;  // sides of one session: launched in turn, the n-th next to the n-th
  std::vector<MetricComparison> metrics;
  std::vector<std::string> warnings;
  GateVerdict verdict = GateVerdict::inconclusive;
  bool wrong_work = false;  // a variant of the later run did other work than before, or than its baseline
};

// Compares the cells that both have. Throws Error(not_comparable) that names every difference of machine and workload,
// unless those are allowed, and always when nothing is left to compare.
RunComparison compare_runs(const StoredRun& before, const StoredRun& after, const ComparisonOptions&);

// What of the machine is another: "processor: 'A' before, 'B' after".
std::vector<std::string> machine_differences(const StoredRun& before, const StoredRun& after);

// A table for the terminal; a table that pastes into a pull request; JUnit (FAIL is a failure, INCONCLUSIVE skipped
// with its reason); GitHub's workflow commands, one annotation a metric that is not as before.
std::string comparison_table(const RunComparison&);
std::string comparison_markdown(const RunComparison&);
std::string comparison_junit(const RunComparison&);
std::string comparison_annotations(const RunComparison&);
std::string comparison_json(const RunComparison&);

}  // namespace mrb
