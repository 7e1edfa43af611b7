#include "report/plan_json.hpp"

#include <nlohmann/json.hpp>

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

Json or_null(double value) {
  return value > 0 ? Json(value) : Json();
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json candidate_json(const Candidate& one) {
  const PlanPoint& point = one.point;
  const StepCost& cost = one.cost;
  const Parallelism& split = point.train.split;
  return {{"instance", point.instance->name},
          {"nodes", point.nodes},
          {"rollout_nodes", point.rollout_nodes},
          {"train_nodes", point.train_nodes},
          {"schedule", schedule_name(point.schedule)},
          {"staleness_max", point.staleness},
          {"engine_gpus", point.engine_gpus},
          {"dispatcher", point.train.backend},
          {"tensor_parallel", split.tensor},
          {"pipeline_parallel", split.pipeline},
          {"expert_parallel", split.expert},
          {"data_parallel", split.data()},
          {"micro_batch_sequences", point.train.micro_sequences},
          {"recompute", point.train.recompute == Recompute::full},
          {"step_s", cost.step_s},
          {"rollout_s", cost.phases.rollout_s},
          {"rollout_sustained_s", cost.phases.rollout_sustained_s},
          {"log_probs_s", cost.forward_s},
          {"train_s", cost.phases.train_s - cost.forward_s},
          {"weight_sync_s", cost.phases.sync_s},
          {"mode_switch_s", cost.phases.switch_s},
          {"trained_tokens_per_s", cost.tokens_per_s()},
          {"usd_per_hour", or_null(cost.usd_per_hour)},
          {"usd_per_million_trained_tokens", or_null(cost.usd_per_million_tokens())},
          {"train_memory_bytes_per_gpu", cost.memory.total_bytes()},
          {"rollout_weight_bytes_per_gpu", cost.rollout.weight_gbyte * 1e9},
          {"rollout_kv_bytes_per_gpu", cost.rollout.kv_gbyte * 1e9},
          {"answers_at_once_per_engine", cost.rollout.slots}};
}

Json candidates_json(const std::vector<Candidate>& candidates) {
  Json all = Json::array();
  for (const Candidate& one : candidates) all.push_back(candidate_json(one));
  return all;
}

}  // namespace

std::string plan_json(const PlanReport& report) {
  const Workload& w = report.workload;
  Json sensitivities = Json::array(), marginals = Json::array(), winners = Json::array();
  for (const Sensitivity& line : report.sensitivities) {
    sensitivities.push_back({{"knob", line.knob},
                             {"step_ratio_less_20_percent", or_null(line.less_ratio)},
                             {"step_ratio_more_20_percent", or_null(line.more_ratio)},
                             {"changes_nothing", line.is_dead()}});
  }
  for (const Marginal& line : report.marginals) {
    marginals.push_back({{"one_node_more_for", line.side}, {"step_ratio", or_null(line.step_ratio)}});
  }
  for (const WinnerCell& cell : report.winners) {
    winners.push_back({{"instance", cell.instance},
                       {"nodes", cell.nodes},
                       {"micro_batch_sequences", cell.micro_sequences},
                       {"dispatcher", cell.backend},
                       {"next", cell.next},
                       {"lead_ratio", cell.lead_ratio}});
  }
  const Json all = {
      {"schema_version", 1},
      {"source", "modelled"},
      {"expected_error_ratio",
       {{"step", or_null(report.step_error_ratio)},
        {"train", report.calibration.train_error_ratio},
        {"weight_sync", report.calibration.sync_error_ratio},
        {"rollout", nullptr}}},
      {"workload",
       {{"model", w.model.name},
        {"prompts", w.prompts},
        {"group_size", w.group_size},
        {"prompt_tokens", w.prompt_tokens},
        {"answer_tokens_mean", w.lengths.mean_tokens},
        {"answer_tokens_cv", w.lengths.cv},
        {"answer_tokens_max", w.lengths.max_tokens},
        {"group_correlation", w.lengths.group_correlation},
        {"log_prob_passes", w.forward_passes},
        {"expert_imbalance_ratio", w.imbalance}}},
      {"goal", report.goal},
      {"best", candidate_json(report.best)},
      {"is_extrapolated", !report.calibration.has_seen(report.best.point.train.backend, *report.best.point.instance)},
      {"simulated",
       {{"steps", report.simulated.steps},
        {"step_s_p50", report.simulated.step_s_p50},
        {"step_s_p95", report.simulated.step_s_p95},
        {"staleness_mean", report.simulated.staleness_mean},
        {"staleness_max", report.simulated.staleness_max}}},
      {"mfu_ratio", report.mfu_ratio()},
      {"exchange_bytes_per_gpu", report.exchange_bytes_per_gpu()},
      {"candidates", candidates_json(report.found.candidates)},
      {"pareto", candidates_json(report.pareto)},
      {"sensitivities", sensitivities},
      {"marginals", marginals},
      {"winners", winners},
      {"refused", Json(report.found.refused)},
      {"points_priced", report.found.priced}};
  return all.dump(2) + "\n";
}

}  // namespace mrb
