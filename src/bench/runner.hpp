// Runs a plan, block by block, and keeps what it has found on disk.
#pragma once

#include <functional>

#include "bench/launch.hpp"

namespace mrb {

struct RunnerHooks {
  std::function<bool()> interrupted;                 // asked between steps, on every rank
  std::function<void(const RunRecord&)> save;        // rank 0, after every launch and at the end
  std::function<void(const std::string&)> progress;  // rank 0, one line per launch
};

// Whether dispatchers are checked and warm-up steps run before anything is measured.
enum class Rehearsal { yes, no };

// Collective. First every experiment is rehearsed: its dispatcher is compared with the reference and its warm-up steps
// run, so that what can fail does so before anything is measured, and the first block is no colder than the others.
// An experiment that cannot be set up is a failed result and the plan goes on; an error in the middle of a
// step is thrown, and is the end of all ranks. The record is complete on rank 0.
RunRecord run_plan(const Plan&, const LaunchContext&, const RunnerHooks&, Rehearsal = Rehearsal::yes);

// The exit code of a run that came to its end: 0, or that of wrong results, of variants that failed, or of nothing
// that could run.
int exit_code_of(const RunRecord&);

}  // namespace mrb
