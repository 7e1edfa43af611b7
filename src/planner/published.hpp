// What others have measured, as samples that the model can be fitted to and judged by.
#pragma once

#include <string>
#include <vector>

#include "planner/csv.hpp"
#include "planner/fit.hpp"
#include "planner/instance.hpp"

namespace mrb {

struct Observation {
  std::string id;
  std::string campaign;   // the id up to its last dash: rows of one table share their run
  std::string operation;  // collective, dispatch, combine or train_step
  std::string regime;     // latency: 256 tokens a rank at most; bandwidth; all
  std::string backend;
  std::string cell;  // what else must be equal for two backends to be compared
  FitSample sample;
};

// One term of an operation's time. Without a fit only physics counts: line rates, peaks and latency, but neither
// congestion that grows with nodes nor what software adds.
struct CostTerm {
  std::string name;
  double unfitted;  // the coefficient without a fit
};

// The terms of `operation`, in the order of FitSample::physical_s.
const std::vector<CostTerm>& cost_terms(const std::string& operation);

// Rows that the model has an operation for, on instances that are known; the others are counted in `left_out`.
struct Published {
  std::vector<Observation> observations;
  int left_out = 0;
};

Published read_published(const std::vector<CsvRow>&, const std::vector<Instance>&);

}  // namespace mrb
