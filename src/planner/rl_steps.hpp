// Whole steps that others have published, predicted with nothing fitted to them.
#pragma once

#include <string>
#include <vector>

#include "planner/search.hpp"

namespace mrb {

struct RlStep {
  std::string id;
  std::string what;  // model, GPUs and schedule
  double measured_s = 0;
  double predicted_s = 0;  // 0: does not fit by our account of memory
};

// One system's step of one model on the same GPUs, synchronous over asynchronous.
struct SpeedUp {
  std::string what;
  double measured_ratio = 0;
  double predicted_ratio = 0;
};

struct RlValidation {
  std::vector<RlStep> steps;
  std::vector<SpeedUp> speed_ups;

  double mean_error_ratio() const;  // of the steps that fit; 0 when there is none
};

// Rows of `op` rl_step whose notes name the split (gen[TP,PP], train[TP,CP,EP,PP]) on DGX-H100, whose figures are those
// of p5.48xlarge in all that is used here. What the rows leave open is assumed: 16 answers a prompt, prompts of 128
// tokens, a cv of 0.5 before the cut, micro-batches of 1, the best split of nodes where roles have their own.
RlValidation predict_rl_steps(const std::vector<CsvRow>&, const std::vector<Instance>&, const Calibration&);

}  // namespace mrb
