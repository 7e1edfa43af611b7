#include "grpo/advantages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace mrb {

std::vector<double> group_advantages(std::string_view kind, std::span<const double> rewards, double eps) {
  const auto count = static_cast<double>(rewards.size());
  const bool alone = rewards.size() == 1;
  const double mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) / count;
  double squares = 0;
  for (const double reward : rewards) squares += (reward - mean) * (reward - mean);

  std::vector<double> advantages(rewards.begin(), rewards.end());
  const auto transform = [&](double shift, double factor) {
    for (double& value : advantages) value = (value - shift) * factor;
  };
  if (std::all_of(rewards.begin(), rewards.end(), [&](double reward) { return reward == rewards[0]; }) && !alone) {
    transform(rewards[0], 1);
  } else if (kind == "grpo") {
    alone ? transform(0, 1 / (1 + eps)) : transform(mean, 1 / (std::sqrt(squares / (count - 1)) + eps));
  } else if (kind == "grpo_population") {
    alone ? transform(0, 1 / (1 + eps)) : transform(mean, 1 / (std::sqrt(squares / count) + eps));
  } else if (kind == "dr_grpo") {
    transform(mean, 1);
  } else if (kind == "leave_one_out") {
    transform(mean, alone ? 0 : count / (count - 1));
  } else {
    throw Error(ErrorKind::config, fmt::format("there is no advantage called '{}'", kind),
                "use one of: grpo, grpo_population, dr_grpo, leave_one_out");
  }
  return advantages;
}

}  // namespace mrb
