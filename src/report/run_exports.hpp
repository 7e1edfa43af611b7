// A stored run in the forms that other programs read.
#pragma once

#include <string>
#include <vector>

#include "report/stored_run.hpp"

namespace mrb {

// A table that pastes into a pull request: one row per variant.
std::string run_markdown(const StoredRun&);

// Every counted and warm-up step of every launch, one row each, with a column per phase (mean of ranks, ns).
std::string run_csv(const StoredRun&);

// One test case per variant: failed is an error, skipped is skipped, other work than the baseline's is a failure.
std::string run_junit(const StoredRun&);

// As Google Benchmark writes it: one entry per launch, then median, mean and standard deviation, so that existing
// boards read us. Real time is that of a mean counted step. There is no CPU time: its field repeats the real time.
std::string run_google_benchmark(const StoredRun&);

}  // namespace mrb
