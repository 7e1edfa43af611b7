#include "planner/plan_report.hpp"

#include "planner/model_cost.hpp"

namespace mrb {

namespace {

// Positions in cost_terms("train_step").
constexpr std::size_t kNicExposed = 2, kExchange = 4;

TrainStep step_of(const PlanReport& report) {
  const TrainChoice& train = report.best.point.train;
  return {.split = train.split,
          .sequences = static_cast<double>(report.workload.answers()),
          .tokens_per_sequence = report.best.cost.trained_tokens / report.workload.answers(),
          .micro_sequences = train.micro_sequences,
          .pattern = training_pattern(train.backend),
          .recompute = train.recompute,
          .imbalance = report.workload.imbalance};
}

}  // namespace

double PlanReport::mfu_ratio() const {
  const double context = best.cost.trained_tokens / workload.answers() / 2;
  const double flop = (3 + workload.forward_passes) * forward_flop(workload.model, context) * best.cost.trained_tokens;
  return flop / (best.cost.step_s * gpus() * best.point.instance->bf16_tflop_per_s * 1e12);
}

double PlanReport::exchange_bytes_per_gpu() const {
  const Instance& instance = *best.point.instance;
  const TrainStep step = step_of(*this);
  const double nic_s = train_terms(workload.model, step, instance)[kNicExposed] +
                       workload.forward_passes * forward_terms(workload.model, step, instance)[kNicExposed];
  return nic_s * instance.efa_gbyte_per_s * 1e9;
}

double PlanReport::exchange_share_ratio() const {
  const auto terms = train_terms(workload.model, step_of(*this), *best.point.instance);
  double all = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) all += terms[i] * calibration.train.coefficients[i];
  return (terms[kNicExposed] * calibration.train.coefficients[kNicExposed] +
          terms[kExchange] * calibration.train.coefficients[kExchange]) /
         all;
}

}  // namespace mrb
