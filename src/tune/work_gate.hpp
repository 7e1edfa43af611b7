// Whether candidates compute what the baseline computes: of one seed, step by step, their losses and log-probabilities
// agree. A candidate that computes something else gets no number.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/experiment.hpp"
#include "tune/tuner.hpp"

namespace mrb {

// What one step of a launch computed.
struct StepWork {
  double loss = 0;
  double log_prob_mean = 0;
};

class WorkGate {
 public:
  // Of the candidates, the baseline first. Those that round otherwise, or train on other weights (policy_lag()), are not
  // judged by losses: the dispatcher's check against the reference is theirs.
  explicit WorkGate(const std::vector<Experiment>&);

  // What a launch computed. Nothing: it measured nothing. Launches of a seed may come in any order.
  void see(const TuneLaunch&, const std::vector<StepWork>&);

  // How the candidate was seen to differ from the baseline; empty when it was not.
  const std::string& difference(int candidate) const { return differences_[static_cast<std::size_t>(candidate)]; }

 private:
  void compare(int candidate, const std::vector<StepWork>& work, const std::vector<StepWork>& baseline);

  std::vector<double> tolerances_;  // 0: not judged
  std::vector<std::string> differences_;
  std::map<std::uint64_t, std::map<int, std::vector<StepWork>>> by_seed_;
};

}  // namespace mrb
