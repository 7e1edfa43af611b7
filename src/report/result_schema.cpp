#include "report/result_schema.hpp"

#include <nlohmann/json.hpp>

#include "report/json.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

// Counts, bytes and nanoseconds. What is unknown is null, and never NaN.
const Json kCount = {{"type", "integer"}, {"minimum", 0}};
const Json kText = {{"type", "string"}};
const Json kTruth = {{"type", "boolean"}};
const Json kNumber = {{"type", {"number", "null"}}};
const Json kTextOrNull = {{"type", {"string", "null"}}};
const Json kTruthOrNull = {{"type", {"boolean", "null"}}};

Json list_of(const Json& items) {
  return {{"type", "array"}, {"items", items}};
}

Json map_of(const Json& values) {
  return {{"type", "object"}, {"additionalProperties", values}};
}

Json one_of(const std::vector<std::string>& words) {
  return {{"type", "string"}, {"enum", words}};
}

// All of `required` must be there, `optional` may; a later version of the same schema may add more.
Json object(const Json& required, const Json& optional = Json::object()) {
  Json names = Json::array(), properties = required;
  for (const auto& [name, schema] : required.items()) names.push_back(name);
  properties.update(optional);
  return {{"type", "object"}, {"required", names}, {"properties", properties}};
}

Json step() {
  return object({{"step", kCount},
                 {"warmup", kTruth},
                 {"wall_ns", kCount},
                 {"unaccounted_ratio_max", kNumber},
                 {"marked", kTruth},
                 {"prompt_tokens", kCount},
                 {"response_tokens", kCount},
                 {"trained_tokens", kCount},
                 {"loss", kNumber},
                 {"reward_mean", kNumber},
                 {"log_prob_mean", kNumber},
                 {"gradient_norm", kNumber},
                 {"token_checksum", kCount},
                 {"dispatch_logical_bytes", kCount},
                 {"dispatch_wire_bytes", kCount},
                 {"dispatch_wire_bytes_between_nodes", kCount},
                 {"age_mean", kNumber},
                 {"age_max", kCount},
                 {"full_ratio", kNumber},
                 {"answer_bytes", kCount},
                 {"weight_bytes", kCount},
                 {"roles", map_of(object({{"ranks", kCount}, {"wall_ns", kCount}, {"idle_ns", kCount}}))},
                 {"phases", map_of(object({{"ns_max", kCount}, {"ns_min", kCount}, {"ns_sum", kCount}}))}});
}

Json cell() {
  const Json launch =
      object({{"index", kCount},
              {"block", kCount},
              {"transport", kText},
              {"provider", kText},
              {"tokens_per_s", kNumber},
              {"steps", list_of(step())}},
             {{"nic", object({{"source", kTextOrNull}, {"sent_bytes", kCount}, {"handed_bytes", kCount}})},
              {"late_ns", list_of(kCount)}});
  const Json metric = object({{"unit", kText},
                              {"better", one_of({"higher", "lower"})},
                              {"n", kCount},
                              {"median", kNumber},
                              {"mean", kNumber},
                              {"min", kNumber},
                              {"max", kNumber},
                              {"variation_launches", kNumber}});
  const Json comparison = object({{"baseline_id", kText},
                                  {"design", kText},
                                  {"metric", kText},
                                  {"ratio", kNumber},
                                  {"ci_low", kNumber},
                                  {"ci_high", kNumber},
                                  {"confidence", {{"type", "number"}}},
                                  {"blocks", kCount},
                                  {"log_ratios", list_of(kNumber)},
                                  {"verdict", kText}});
  const Json correctness = object({{"same_work", kTruthOrNull},
                                   {"same_lag", kTruthOrNull},
                                   {"same_tokens", kTruthOrNull},
                                   {"lag", {{"type", "integer"}, {"minimum", -1}}},
                                   {"difference_max", kNumber},
                                   {"tolerance", {{"type", "number"}}}});
  return object({{"id", kText},
                 {"workload_id", kText},
                 {"label", kText},
                 {"baseline", kTruth},
                 {"status", one_of({"pending", "done", "failed", "skipped"})},
                 {"reason", kTextOrNull},
                 {"source", one_of({"measured", "modelled"})},
                 {"params", map_of(kText)},
                 {"launches", list_of(launch)}},
                {{"metrics", map_of(metric)}, {"correctness", correctness}, {"comparison", comparison}});
}

Json environment() {
  const Json node = object({{"host", kText},
                            {"kernel", kText},
                            {"processor", kText},
                            {"cores_online", kCount},
                            {"cores_allowed", kCount},
                            {"memory_bytes", kCount},
                            {"load_average", kNumber}});
  const Json library =
      object({{"name", kText}, {"built_with", kText}, {"loaded", kText}, {"missing_feature", kTextOrNull}});
  return object({{"nodes", list_of(node)},
                 {"compute_device", kText},
                 {"compute_library", kText},
                 {"libraries", list_of(library)},
                 {"env", map_of(kText)}});
}

Json doctor() {
  const Json finding = object({{"id", kText},
                               {"scope", one_of({"rank", "node", "job"})},
                               {"severity", one_of({"note", "warn", "refuse"})},
                               {"problem", kText},
                               {"ranks", list_of(kCount)},
                               {"hosts", list_of(kText)},
                               {"reads", kText},
                               {"why", kText},
                               {"fix", kText}});
  return object({{"verdict", kText},
                 {"fit", kTruth},
                 {"comparable", kTruth},
                 {"checks", kCount},
                 {"findings", list_of(finding)},
                 {"not_looked", list_of(object({{"id", kText}, {"why", kText}}))}});
}

}  // namespace

std::string result_json_schema() {
  const Json run = object({{"id", kText},
                           {"started", kText},
                           {"ended", kTextOrNull},
                           {"argv", list_of(kText)},
                           {"seed", kCount},
                           {"status", one_of({"ok", "partial", "failed", "interrupted"})},
                           {"launches_done", kCount},
                           {"launches_planned", kCount},
                           {"notes", list_of(kText)}},
                          {{"ab_session", kText}});
  Json document = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "moe-rl-bench result"}};
  document.update(
      object({{"schema_version", {{"type", "integer"}, {"minimum", 1}, {"maximum", kResultSchemaVersion}}},
              {"tool", object({{"name", kText}, {"version", kText}, {"commit", kText}, {"build", kText}})},
              {"run", run},
              {"config", map_of(object({{"values", list_of(kText)}, {"origin", kText}}))},
              {"baseline", map_of(kText)},
              {"environment", environment()},
              {"ranks", list_of(object({{"rank", kCount}, {"host", kText}, {"cpus", kText}, {"threads", kCount}}))},
              {"cells", list_of(cell())}},
             {{"doctor", doctor()}}));
  return document.dump(2) + "\n";
}

}  // namespace mrb
