// Runs a plan, block by block, and keeps what it has found on disk.
#pragma once

#include <functional>

#include "bench/launch.hpp"

namespace mrb {

struct RunnerHooks {
  std::function<bool()> interrupted;                       // asked between steps, on every rank
  std::function<void(const RunRecord&)> save;              // rank 0, after every launch and at the end
  std::function<void(const std::string&)> progress;        // rank 0, one line per launch
};

// Collective. An experiment that cannot be set up is a failed result and the plan goes on; an error in the middle of a
// step is thrown, and is the end of all ranks. The record is complete on rank 0.
RunRecord run_plan(const Plan&, const LaunchContext&, const RunnerHooks&);

}  // namespace mrb
