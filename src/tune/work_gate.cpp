#include "tune/work_gate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mrb {

WorkGate::WorkGate(const std::vector<Experiment>& experiments) : differences_(experiments.size()) {
  const Experiment& baseline = experiments.front();
  const int lag = policy_lag(baseline.config);
  for (const Experiment& experiment : experiments) {
    const bool is_judged =
        experiment.workload_id == baseline.workload_id && lag >= 0 && policy_lag(experiment.config) == lag;
    tolerances_.push_back(is_judged ? work_tolerance(experiment.config) : 0);
  }
}

void WorkGate::see(const TuneLaunch& launch, const std::vector<StepWork>& work) {
  if (work.empty()) return;
  auto& seen = by_seed_[launch.seed];
  seen[launch.candidate] = work;
  const auto baseline = seen.find(0);
  if (baseline == seen.end()) return;
  if (launch.candidate != 0) return compare(launch.candidate, work, baseline->second);
  for (const auto& [candidate, other] : seen) compare(candidate, other, work);
}

void WorkGate::compare(int candidate, const std::vector<StepWork>& work, const std::vector<StepWork>& baseline) {
  const double tolerance = tolerances_[static_cast<std::size_t>(candidate)];
  if (candidate == 0 || tolerance == 0 || !difference(candidate).empty()) return;
  for (std::size_t i = 0; i < std::min(work.size(), baseline.size()); ++i) {
    const double difference = work_difference({.loss = work[i].loss, .log_prob_mean = work[i].log_prob_mean},
                                              {.loss = baseline[i].loss, .log_prob_mean = baseline[i].log_prob_mean});
    if (difference <= tolerance) continue;  // NaN differs from everything
    differences_[static_cast<std::size_t>(candidate)] = fmt::format(
        "it did not do the baseline's work: step {} has loss {:g} and log-probability {:g}, the baseline "
        "{:g} and {:g} (more than {:g} apart)",
        i, work[i].loss, work[i].log_prob_mean, baseline[i].loss, baseline[i].log_prob_mean, tolerance);
    return;
  }
}

}  // namespace mrb
