#include "tune/elimination.hpp"

#include <cmath>
#include <map>

#include "stats/gate.hpp"
#include "stats/student.hpp"

namespace mrb {

std::vector<Elimination> eliminate(std::span<const Observation> observations, int leader, double alpha, int looks) {
  std::map<int, double> leader_of;  // block -> the leader's log time
  for (const Observation& observation : observations) {
    if (observation.candidate == leader) leader_of[observation.block] = observation.log_s;
  }
  std::map<int, std::vector<double>> differences;
  for (const Observation& observation : observations) {
    const auto found = leader_of.find(observation.block);
    if (observation.candidate == leader || found == leader_of.end()) continue;
    differences[observation.candidate].push_back(observation.log_s - found->second);
  }

  double squares = 0, degrees_of_freedom = 0;
  std::vector<Elimination> tests;
  std::vector<double> means;
  for (const auto& [candidate, logs] : differences) {
    double mean = 0;
    for (const double log : logs) mean += log / static_cast<double>(logs.size());
    for (const double log : logs) squares += (log - mean) * (log - mean);
    degrees_of_freedom += static_cast<double>(logs.size()) - 1;
    if (candidate == 0) continue;
    tests.push_back({candidate, std::exp(mean), static_cast<int>(logs.size()), 0});
    means.push_back(mean);
  }
  if (degrees_of_freedom < 3) return {};

  std::vector<double> p_values;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    const double standard_error = std::sqrt(squares / degrees_of_freedom / tests[i].blocks);
    const double t = standard_error > 0 ? means[i] / standard_error : std::copysign(INFINITY, means[i]);
    tests[i].p_value = means[i] == 0 ? 0.5 : student_upper_tail(t, degrees_of_freedom);
    p_values.push_back(tests[i].p_value);
  }
  const std::vector<bool> rejected = holm(p_values, alpha / looks);
  std::vector<Elimination> shown;
  for (std::size_t i = 0; i < tests.size(); ++i) {
    if (rejected[i]) shown.push_back(tests[i]);
  }
  return shown;
}

}  // namespace mrb
