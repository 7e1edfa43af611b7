// What is asked of a search: the best points, and how firm they are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search.hpp"

namespace mrb {

// The point stays, one thing is 20% less or more; the step's time then, over its time now. Nothing where the point no
// longer fits.
struct Sensitivity {
  std::string knob;
  std::optional<double> less_ratio, more_ratio;

  bool is_dead() const { return less_ratio == 1.0 && more_ratio == 1.0; }
};

// One node more on one side, split and engines chosen anew; where no split makes use of it, it stays idle.
struct Marginal {
  std::string side;
  std::optional<double> step_ratio;
};

// The backend that trains fastest on so many nodes at this micro-batch, and how much longer the next one takes. A lead
// below the error of the model is no difference shown.
struct WinnerCell {
  std::string instance;
  int nodes = 0;
  double micro_sequences = 0;
  std::string backend;
  std::string next;
  double lead_ratio = 0;  // 0.1: the next takes 10% longer
};

// Neither slower nor dearer than any other; cheapest first. Points without a price are not among them.
std::vector<Candidate> pareto(const std::vector<Candidate>&);

const Candidate& fastest(const std::vector<Candidate>&);   // not empty
const Candidate* cheapest(const std::vector<Candidate>&);  // of those with a price; null when none has one

std::vector<Sensitivity> sensitivities(const Candidate&, const Workload&, const Calibration&);
std::vector<Marginal> marginals(const Candidate&, const SearchSpace&, const StepModel&);
std::vector<WinnerCell> winners(const SearchSpace&, const StepModel&);

}  // namespace mrb
