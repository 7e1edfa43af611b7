// What a tuning session says in the end: a table, the whole trail as JSON, and what to use from now on.
#pragma once

#include <string>
#include <vector>

#include "report/run_info.hpp"
#include "tune/journal.hpp"
#include "tune/space.hpp"
#include "tune/tuner.hpp"

namespace mrb {

// The tuner's side of a session: all that a journal gives back.
struct TuneOutcome {
  Journal journal;
  TuneAnswer answer;
  std::vector<TuneTrail> trail;  // one per candidate
  bool is_over = false;          // otherwise it was interrupted, and can be resumed
};
TuneOutcome tune_outcome(Journal);

// "step_mean" (mean over the counted steps) or "step_p99", of the slowest rank.
const std::vector<std::string>& tune_metrics();

std::string tune_table(const TuneOutcome&);

// With the machine, the space and what was left out of it.
std::string tune_json(const RunInfo&, const TuneSpace&, const TuneOutcome&);

// The winner for --config. Its comment says how it was found and under which key it holds.
std::string tuned_yaml(const RunInfo&, const TuneSpace&, const TuneOutcome&);

// NAME=value lines for a training job: what the winner's transport and threads mean to libfabric and OpenMP, and the
// libraries' variables that were in force while it was measured.
std::string tuned_environment(const RunInfo&, const TuneSpace&, const TuneOutcome&);

// A merge patch for the ConfigMap that `manifest` renders, so that its MPIJob runs the winner.
std::string tuned_patch(const RunInfo&, const TuneSpace&, const TuneOutcome&);

}  // namespace mrb
