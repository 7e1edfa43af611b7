// All that `plan` found, for reports to show.
#pragma once

#include <string>
#include <vector>

#include "planner/answers.hpp"
#include "planner/simulated_steps.hpp"

namespace mrb {

struct PlanReport {
  Workload workload;
  SearchResult found;
  Calibration calibration;
  Candidate best;
  std::string goal;             // by which `best` is: throughput or price
  int steps = 1;                // of the whole training
  double step_error_ratio = 0;  // mean, of published whole steps that were predicted; 0: none could be
  SimulatedSteps simulated;
  std::vector<Candidate> pareto;
  std::vector<Sensitivity> sensitivities;
  std::vector<Marginal> marginals;
  std::vector<WinnerCell> winners;

  int gpus() const { return best.point.nodes * best.point.instance->gpus_per_node; }
  // Over all GPUs and the whole step: (forward passes + 3) forward operations of each trained token, recomputation not
  // counted, over the peak.
  double mfu_ratio() const;
  // Of the bytes that a GPU sends to other nodes for dispatch and combine in a step's training.
  double exchange_bytes_per_gpu() const;
  double exchange_share_ratio() const;  // of training
};

}  // namespace mrb
