#include "planner/rl_steps.hpp"

#include <fmt/format.h>

#include <cmath>
#include <regex>

namespace mrb {

namespace {

constexpr int kGroupSize = 16;
constexpr double kPromptTokens = 128, kCv = 0.5;

struct Setting {
  Workload workload;
  Schedule schedule = Schedule::colocated;
  int staleness = 0;
  int nodes = 0;
  int engine_gpus = 1;
  Parallelism split;
};

std::optional<Setting> setting_of(const std::string& notes, int gpus, const Instance& instance) {
  static const std::regex pattern(
      R"(^([^;]+);GRPO;policy=(on|(\d+)-step-off);T-max-seq=(\d+);G-avg-seq=(\d+);G-GBS=(\d+);T-GBS=\d+;)"
      R"(gen\[TP,PP\]=(\d+),(\d+);train\[TP,CP,EP,PP\]=(\d+),(\d+),(\d+),(\d+);)");
  std::smatch match;
  if (!std::regex_search(notes, match, pattern) || gpus % instance.gpus_per_node != 0) return std::nullopt;
  const auto model = published_model(match[1]);
  if (!model) return std::nullopt;
  const auto number = [&](std::size_t group) { return match[group].matched ? std::stoi(match[group]) : 0; };
  Setting setting;
  setting.workload.model = *model;
  setting.workload.prompts = number(6) / kGroupSize;
  setting.workload.group_size = kGroupSize;
  setting.workload.prompt_tokens = kPromptTokens;
  setting.workload.imbalance = 1;
  setting.workload.lengths.cv = kCv;
  setting.workload.lengths.max_tokens = number(4) - kPromptTokens;
  // The published mean is after the cut: find the one before it.
  double& mean = setting.workload.lengths.mean_tokens;
  mean = number(5) - kPromptTokens;
  for (int round = 0; round < 50; ++round) {
    mean *= (number(5) - kPromptTokens) / setting.workload.lengths.mean_cut();
  }
  setting.staleness = number(3);
  setting.schedule = setting.staleness == 0   ? Schedule::colocated
                     : setting.staleness == 1 ? Schedule::one_step_off
                                              : Schedule::async;
  setting.nodes = gpus / instance.gpus_per_node;
  setting.engine_gpus = number(7) * number(8);
  // Context ranks cut a sequence as tensor ranks do, and hold all weights; they are counted with the tensor ranks.
  setting.split = {.tensor = number(9) * number(10), .pipeline = number(12), .expert = number(11)};
  return setting;
}

// The fastest of all splits of nodes between the roles, 0 when nothing fits.
double predict_s(const Setting& setting, const Instance& instance, const Calibration& calibration) {
  const StepModel model(setting.workload, calibration);
  double best_s = 0;
  const bool is_shared = setting.schedule == Schedule::colocated;
  for (int train_nodes = is_shared ? setting.nodes : 1; train_nodes <= setting.nodes; ++train_nodes) {
    const int rollout_nodes = is_shared ? setting.nodes : setting.nodes - train_nodes;
    const int train_gpus = train_nodes * instance.gpus_per_node, rollout_gpus = rollout_nodes * instance.gpus_per_node;
    const Parallelism& split = setting.split;
    const bool divides = train_gpus % (split.tensor * split.pipeline) == 0 &&
                         train_gpus % (split.expert * split.pipeline) == 0 && rollout_gpus % setting.engine_gpus == 0;
    if (!divides || rollout_gpus == 0) continue;
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      PlanPoint point{.instance = &instance,
                      .nodes = setting.nodes,
                      .rollout_nodes = rollout_nodes,
                      .train_nodes = train_nodes,
                      .schedule = setting.schedule,
                      .staleness = setting.staleness,
                      .engine_gpus = setting.engine_gpus,
                      .train = {split, "nccl-alltoall", 1, recompute}};
      point.train.split.gpus = train_gpus;
      const auto cost = model.cost(point, nullptr);
      if (cost && (best_s == 0 || cost->step_s < best_s)) best_s = cost->step_s;
    }
  }
  return best_s;
}

}  // namespace

double RlValidation::mean_error_ratio() const {
  double sum = 0;
  int count = 0;
  for (const RlStep& step : steps) {
    if (step.predicted_s == 0) continue;
    sum += std::abs(step.predicted_s / step.measured_s - 1);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

RlValidation predict_rl_steps(const std::vector<CsvRow>& rows, const std::vector<Instance>& instances,
                              const Calibration& calibration) {
  RlValidation validation;
  std::map<std::string, RlStep> synchronous;  // by model and GPUs
  for (const CsvRow& row : rows) {
    if (!row.contains("op") || row.at("op") != "rl_step" || row.at("instance") != "non-aws:DGX-H100") continue;
    const Instance& instance = find_instance(instances, "p5.48xlarge");
    const auto setting = setting_of(row.at("notes"), std::stoi(row.at("gpus")), instance);
    if (!setting) continue;
    const std::string what = fmt::format("{} on {} GPUs", setting->workload.model.name, row.at("gpus"));
    RlStep step{.id = row.at("id"),
                .what = fmt::format("{}, {}", what, schedule_name(setting->schedule)),
                .measured_s = std::stod(row.at("value")),
                .predicted_s = predict_s(*setting, instance, calibration)};
    if (setting->schedule == Schedule::colocated) {
      synchronous[what] = step;
    } else if (const auto found = synchronous.find(what);
               found != synchronous.end() && step.predicted_s > 0 && found->second.predicted_s > 0) {
      validation.speed_ups.push_back({.what = step.what + " over colocated",
                                      .measured_ratio = found->second.measured_s / step.measured_s,
                                      .predicted_ratio = found->second.predicted_s / step.predicted_s});
    }
    validation.steps.push_back(step);
  }
  return validation;
}

}  // namespace mrb
