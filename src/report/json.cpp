#include "report/json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/comparison.hpp"
#include "bench/plan.hpp"
#include "report/config_json.hpp"
#include "report/diagnosis_report.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json step_json(const StepSample& step) {
  Json phases = Json::object();
  for (const auto& [name, phase] : step.phases) {
    phases[name] = {{"ns_max", phase.ns_max}, {"ns_min", phase.ns_min}, {"ns_sum", phase.ns_sum}};
  }
  Json roles = Json::object();
  for (const auto& [name, role] : step.roles) {
    roles[name] = {{"ranks", role.ranks}, {"wall_ns", role.wall_ns}, {"idle_ns", role.idle_ns}};
  }
  return {{"step", step.step},
          {"warmup", step.warmup},
          {"wall_ns", step.wall_ns},
          {"unaccounted_ratio_max", number(step.unaccounted_ratio_max)},
          {"marked", step.unaccounted_ratio_max > kUnaccountedRatioMax},
          {"prompt_tokens", step.prompt_tokens},
          {"response_tokens", step.response_tokens},
          {"trained_tokens", step.trained_tokens},
          {"loss", number(step.loss)},
          {"reward_mean", number(step.reward_mean)},
          {"log_prob_mean", number(step.log_prob_mean)},
          {"gradient_norm", number(step.gradient_norm)},
          {"token_checksum", step.token_checksum},
          {"dispatch_logical_bytes", step.dispatch_logical_bytes},
          {"dispatch_wire_bytes", step.dispatch_wire_bytes},
          {"dispatch_wire_bytes_between_nodes", step.dispatch_wire_bytes_between_nodes},
          {"age_mean", step.age_mean},
          {"age_max", step.age_max},
          {"full_ratio", step.full_ratio},
          {"answer_bytes", step.answer_bytes},
          {"weight_bytes", step.weight_bytes},
          {"roles", roles},
          {"phases", phases}};
}

Json result_cell(const std::vector<Result>& results, const Result& result) {
  Json launches = Json::array();
  for (const LaunchSample& launch : result.launches) {
    Json steps = Json::array();
    for (const StepSample& step : launch.steps) steps.push_back(step_json(step));
    launches.push_back({{"index", launch.index},
                        {"block", launch.block},
                        {"transport", launch.transport},
                        {"provider", launch.provider},
                        {"nic",
                         {{"source", text_or_null(launch.traffic.nic_source)},
                          {"sent_bytes", launch.traffic.nic_bytes},
                          {"handed_bytes", launch.traffic.handed_bytes}}},
                        {"late_ns", launch.traffic.late_ns},
                        {"tokens_per_s", number(launch_tokens_per_s(launch))},
                        {"steps", steps}});
  }
  Json cell = {{"id", result.experiment.id},
               {"workload_id", result.experiment.workload_id},
               {"label", result.experiment.label},
               {"baseline", result.experiment.is_baseline},
               {"status", status_text(result.status)},
               {"reason", text_or_null(result.reason)},
               {"source", result.source},
               {"params", config_json(result.experiment.config)},
               {"launches", launches}};
  if (result.status != ResultStatus::done) return cell;
  const Summary& rate = result.tokens_per_s;
  cell["metrics"]["tokens_per_s"] = {
      {"unit", "prompt and response tokens of all ranks / s of wall time, warm-up left out"},
      {"better", "higher"},
      {"n", rate.count},
      {"median", number(rate.median)},
      {"mean", number(rate.mean)},
      {"min", number(rate.min)},
      {"max", number(rate.max)},
      {"variation_launches", number(rate.variation)}};
  const Result* baseline = find_baseline(results, result);
  const auto if_compared = [&](const Json& value) { return baseline != nullptr ? value : Json(nullptr); };
  cell["correctness"] = {{"same_work", if_compared(result.same_work)},
                         {"same_lag", if_compared(result.same_lag)},
                         {"same_tokens", if_compared(result.same_tokens)},
                         {"lag", policy_lag(result.experiment.config)},
                         {"difference_max", if_compared(number(result.loss_difference_max))},
                         {"tolerance", work_tolerance(result.experiment.config)}};
  if (baseline != nullptr && baseline != &result) {
    const RatioEstimate& ratio = result.against_baseline;
    Json log_ratios = Json::array();
    for (const double value : block_log_ratios(result, *baseline)) log_ratios.push_back(number(value));
    cell["comparison"] = {{"baseline_id", baseline->experiment.id},
                          {"design", "paired blocks, A B B A"},
                          {"metric", "tokens_per_s"},
                          {"ratio", result.same_work ? number(ratio.ratio) : Json(nullptr)},
                          {"ci_low", number(ratio.low)},
                          {"ci_high", number(ratio.high)},
                          {"confidence", 0.95},
                          {"blocks", ratio.blocks},
                          {"log_ratios", log_ratios},
                          {"verdict", verdict_text(ratio.verdict)}};
  }
  return cell;
}

Json environment_json(const RunInfo& info) {
  Json nodes = Json::array();
  for (const Machine& node : info.nodes) {
    nodes.push_back({{"host", node.host},
                     {"kernel", node.kernel},
                     {"processor", node.processor},
                     {"cores_online", node.cores_online},
                     {"cores_allowed", node.cores_allowed},
                     {"memory_bytes", node.memory_bytes},
                     {"load_average", number(node.load_average)}});
  }
  Json libraries = Json::array();
  for (const LibraryLine& line : info.libraries) {
    libraries.push_back({{"name", line.name},
                         {"built_with", line.built_with},
                         {"loaded", line.loaded},
                         {"missing_feature", line.needs.empty() ? Json(nullptr) : Json(line.needs)}});
  }
  return {{"nodes", nodes},
          {"compute_device", info.compute_device},
          {"compute_library", info.compute_library},
          {"libraries", libraries},
          {"env", info.environment}};
}

}  // namespace

std::string result_json(const RunInfo& info, const RunRecord& record) {
  Json settings = Json::object();
  for (const Setting& setting : info.settings.fields) {
    if (!setting.values.empty()) settings[setting.key] = {{"values", setting.values}, {"origin", setting.origin}};
  }
  Json ranks = Json::array();
  for (const RankInfo& rank : info.ranks) {
    ranks.push_back({{"rank", rank.rank}, {"host", rank.host}, {"cpus", rank.cpus}, {"threads", rank.threads}});
  }
  Json cells = Json::array();
  for (const Result& result : record.results) cells.push_back(result_cell(record.results, result));
  const Json json = {
      {"schema_version", kResultSchemaVersion},
      {"tool",
       {{"name", "moe-rl-bench"},
        {"version", info.build.version},
        {"commit", info.build.commit},
        {"build", info.build.build_type + ", " + info.build.compiler + ", -march=" + info.build.processor}}},
      {"run",
       {{"id", info.id},
        {"started", info.started},
        {"ended", info.ended.empty() ? Json(nullptr) : Json(info.ended)},
        {"argv", info.arguments},
        {"seed", record.results.front().experiment.config.seed},
        // On disk a run is interrupted until it has come to its end, so that no way to die can leave another word there.
        {"status", record.status == "running" ? "interrupted" : record.status},
        {"launches_done", record.launches_done},
        {"launches_planned", record.launches_planned},
        {"notes", record.notes}}},
      {"config", settings},
      {"baseline", info.settings.baseline},
      {"environment", environment_json(info)},
      {"ranks", ranks},
      {"doctor", diagnosis_json(info.diagnosis)},
      {"cells", cells}};
  constexpr int kIndent = 1;
  // The words of other people's libraries need not be UTF-8.
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mrb
