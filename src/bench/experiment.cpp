#include "bench/experiment.hpp"

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "config/roles.hpp"

namespace mrb {

namespace {

constexpr double kSmallLoss = 0.01;
constexpr double kF32Tolerance = 1e-4;
constexpr double kBf16Tolerance = 2e-2;
constexpr double kFp8Tolerance = 1e-1;  // three bits of mantissa on every row's journey

double relative_difference(double a, double b, double floor) {
  return std::abs(a - b) / std::max({std::abs(a), std::abs(b), floor});
}

}  // namespace

std::string status_text(ResultStatus status) {
  switch (status) {
    case ResultStatus::pending:
      return "pending";
    case ResultStatus::done:
      return "done";
    case ResultStatus::failed:
      return "failed";
    case ResultStatus::skipped:
      break;
  }
  return "skipped";
}

double work_difference(const StepSample& a, const StepSample& b) {
  return std::max(relative_difference(a.loss, b.loss, kSmallLoss),
                  relative_difference(a.log_prob_mean, b.log_prob_mean, kSmallLoss));
}

int policy_lag(const Config& config) {
  const int staleness = staleness_max(config.schedule);
  return config.schedule.name == "async" && staleness > 0 ? -1 : staleness;
}

double work_tolerance(const Config& config) {
  const DispatcherConfig& dispatcher = config.dispatcher;
  double tolerance = kF32Tolerance;
  for (const std::string& dtype : {config.compute.dtype, dispatcher.dispatch_dtype, dispatcher.combine_dtype}) {
    if (dtype == "bf16") tolerance = std::max(tolerance, kBf16Tolerance);
    if (dtype.starts_with("fp8")) tolerance = std::max(tolerance, kFp8Tolerance);
  }
  return tolerance;
}

double launch_tokens_per_s(const LaunchSample& launch) {
  std::int64_t tokens = 0, wall_ns = 0;
  for (const StepSample& step : launch.steps) {
    if (step.warmup) continue;
    tokens += step.prompt_tokens + step.response_tokens;
    wall_ns += step.wall_ns;
  }
  return wall_ns > 0 ? static_cast<double>(tokens) / ns_to_s(wall_ns) : 0;
}

}  // namespace mrb
