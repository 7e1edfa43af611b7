#include "grpo/advantages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"

namespace mrb {

namespace {

using Values = std::vector<double>;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

bool all_equal(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values[0]; });
}

Values scaled_differences(std::span<const double> rewards, double shift, double factor) {
  Values advantages;
  for (const double reward : rewards) advantages.push_back((reward - shift) * factor);
  return advantages;
}

// The deviation of the others can be 0 where the group's is not: one right answer among wrong ones. Its advantage then
// stays as it is.
Values leave_one_out_std(std::span<const double> rewards, double eps) {
  Values advantages;
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    Values others(rewards.begin(), rewards.end());
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    const double others_deviation = deviation(others);
    advantages.push_back((rewards[i] - mean(others)) / (others_deviation > 0 ? others_deviation + eps : 1));
  }
  return advantages;
}

Values pass_at_k(std::span<const double> rewards, double eps) {
  Values sorted(rewards.begin(), rewards.end());
  std::sort(sorted.rbegin(), sorted.rend());
  Values advantages(rewards.size(), 0.0);
  const auto best = std::max_element(rewards.begin(), rewards.end()) - rewards.begin();
  advantages[static_cast<std::size_t>(best)] = (sorted[0] - sorted[1]) / (deviation(rewards) + eps);
  return advantages;
}

}  // namespace

double deviation(std::span<const double> values) {
  if (values.size() < 2 || all_equal(values)) return 0;
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

std::vector<double> group_advantages(std::string_view kind, std::span<const double> rewards,
                                     const AdvantageScale& scale) {
  const auto count = static_cast<double>(rewards.size());
  const bool is_alone = rewards.size() == 1;
  if (is_alone && kind.starts_with("grpo")) return {rewards[0] / (1 + scale.eps)};
  if (is_alone || all_equal(rewards)) return Values(rewards.size(), 0.0);
  const double mu = mean(rewards);
  if (kind == "grpo") return scaled_differences(rewards, mu, 1 / (deviation(rewards) + scale.eps));
  if (kind == "grpo_population") {
    return scaled_differences(rewards, mu, 1 / (deviation(rewards) * std::sqrt((count - 1) / count) + scale.eps));
  }
  if (kind == "dr_grpo") return scaled_differences(rewards, mu, 1);
  if (kind == "leave_one_out") return scaled_differences(rewards, mu, count / (count - 1));
  if (kind == "leave_one_out_std") return leave_one_out_std(rewards, scale.eps);
  if (kind == "pass_at_k") return pass_at_k(rewards, scale.eps);
  if (kind == "batch_std") return scaled_differences(rewards, mu, 1 / (scale.batch_deviation + scale.eps));
  throw Error(ErrorKind::config, fmt::format("there is no advantage called '{}'", kind),
              "use one of: grpo, grpo_population, dr_grpo, leave_one_out, leave_one_out_std, pass_at_k, batch_std");
}

}  // namespace mrb
