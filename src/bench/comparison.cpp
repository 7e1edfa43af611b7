#include "bench/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace mrb {

namespace {

// Mean log tokens a second by block.
std::map<int, double> log_rates(const Result& result) {
  std::map<int, std::vector<double>> by_block;
  for (const LaunchSample& launch : result.launches) {
    by_block[launch.block].push_back(std::log(launch_tokens_per_s(launch)));
  }
  std::map<int, double> means;
  for (const auto& [block, logs] : by_block) {
    double sum = 0;
    for (const double value : logs) sum += value;
    means[block] = sum / static_cast<double>(logs.size());
  }
  return means;
}

void check_work(Result& result, const Result& baseline) {
  const auto& expected = baseline.launches.front().steps;
  result.same_work = result.same_tokens = true;
  result.loss_difference_max = 0;
  const int lag = policy_lag(result.experiment.config);
  result.same_lag = &result == &baseline || (lag >= 0 && lag == policy_lag(baseline.experiment.config));
  if (!result.same_lag) {
    result.same_tokens = false;
    return;
  }
  for (const LaunchSample& launch : result.launches) {
    for (std::size_t i = 0; i < std::min(launch.steps.size(), expected.size()); ++i) {
      result.same_tokens &= launch.steps[i].token_checksum == expected[i].token_checksum;
      const double difference = work_difference(launch.steps[i], expected[i]);
      result.loss_difference_max = std::max(result.loss_difference_max, difference);
      // NaN differs from everything.
      if (!(difference <= work_tolerance(result.experiment.config))) result.same_work = false;
    }
  }
}

}  // namespace

std::vector<double> block_log_ratios(const Result& variant, const Result& baseline) {
  const auto variant_rates = log_rates(variant), baseline_rates = log_rates(baseline);
  std::vector<double> ratios;
  for (const auto& [block, rate] : variant_rates) {
    const auto other = baseline_rates.find(block);
    if (other != baseline_rates.end()) ratios.push_back(rate - other->second);
  }
  return ratios;
}

const Result* find_baseline(const std::vector<Result>& results, const Result& result) {
  for (const Result& other : results) {
    if (other.experiment.is_baseline && other.experiment.workload_id == result.experiment.workload_id &&
        other.status == ResultStatus::done) {
      return &other;
    }
  }
  return nullptr;
}

void compare_results(std::vector<Result>& results) {
  for (Result& result : results) {
    if (result.status != ResultStatus::done) continue;
    std::vector<double> rates;
    for (const LaunchSample& launch : result.launches) rates.push_back(launch_tokens_per_s(launch));
    result.tokens_per_s = summarize(rates);
    result.against_baseline = {};
    const Result* baseline = find_baseline(results, result);
    if (baseline == nullptr) continue;
    check_work(result, *baseline);
    if (baseline == &result || !result.same_work) continue;
    result.against_baseline = estimate_ratio(block_log_ratios(result, *baseline));
  }
}

const Result& choose(const std::vector<Result>& results, const Result& baseline) {
  const Result* best = &baseline;
  for (const Result& result : results) {
    if (result.status != ResultStatus::done || find_baseline(results, result) != &baseline || !result.same_work)
      continue;
    if (result.against_baseline.verdict != Verdict::faster) continue;
    if (best == &baseline || result.against_baseline.ratio > best->against_baseline.ratio) best = &result;
  }
  return *best;
}

}  // namespace mrb
