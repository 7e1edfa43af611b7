#include "planner/published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>
#include <set>

#include "base/units.hpp"
#include "planner/model_cost.hpp"
#include "planner/moe_traffic.hpp"
#include "planner/train_step.hpp"

namespace mrb {

std::optional<ModelShape> published_model(const std::string& text) {
  static constexpr std::pair<const char*, const char*> names[] = {
      {"Kimi-K2", "kimi-k2"},         {"Qwen3-235B", "qwen3-235b-a22b"}, {"Qwen3-30B", "qwen3-30b-a3b"},
      {"DeepSeek-V3", "deepseek-v3"}, {"GLM-4.5-Air", "glm-4.5-air"},    {"GLM-4.5", "glm-4.5"}};
  for (const auto& [name, preset] : names) {
    if (text.find(name) != std::string::npos) return find_model_preset(preset);
  }
  return std::nullopt;
}

namespace {

constexpr double kMiB = 1 << 20;
constexpr int kLatencyTokensMax = 256;

double number(const std::string& text) {
  return text.empty() ? 0 : std::strtod(text.c_str(), nullptr);
}

// The number that follows `before` in `text`, or 0.
double number_behind(const std::string& text, const std::string& before) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(before + "([0-9.]+)")) ? number(match[1]) : 0;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Row {
  const CsvRow& fields;
  const Instance& instance;

  const std::string& operator[](const char* column) const { return fields.at(column); }
  double ranks() const { return number(fields.at("gpus")); }
  double local() const { return std::min(ranks(), static_cast<double>(instance.nvlink_domain_gpus)); }
  double nodes() const { return ranks() / local(); }
  std::vector<std::string> effects(const std::string& what) const { return {what, what + " " + instance.name}; }
};

// nccl-tests: busbw = bytes x (n - 1) / n / time, twice that for an all-reduce.
std::optional<FitSample> collective(const Row& row) {
  double bytes = number_behind(row["notes"], "size_MiB=") * kMiB;
  if (bytes == 0) bytes = number_behind(row["notes"], "size_bytes=");
  if (row["metric"] == "busbw_at_64MiB") bytes = 64 * kMiB;
  if (row["metric"] == "busbw_at_8GiB") bytes = 8192 * kMiB;
  const double n = row.ranks(), nodes = row.nodes(), busbw = number(row["value"]) * kGbyte;
  if (bytes == 0 || busbw == 0 || n < 2) return std::nullopt;
  const std::string& op = row["op"];
  const bool is_alltoall = op == "alltoall";
  const double passes = op == "all_reduce" ? 2 : 1;
  // An all-to-all's bytes leave by the rank's own interface; the others cross a node's border once, over all of its.
  const double nic_bytes =
      is_alltoall ? bytes * (nodes - 1) / nodes : passes * bytes * (nodes - 1) / nodes / row.local();
  const double nic_s = nic_bytes / (row.instance.efa_gbyte_per_s * kGbyte);
  const double nvlink_s = passes * bytes * (n - 1) / n / (row.instance.nvlink_gbyte_per_s * kGbyte);
  const double latency_s = row.instance.latency_us * 1e-6;
  return FitSample{.measured_s = passes * bytes * (n - 1) / n / busbw,
                   .physical_s = {latency_s, latency_s * (nodes - 1), nic_s, nic_s * std::log2(nodes), nvlink_s},
                   .effects = row.effects(op)};
}

bool is_one_sided_by_copy(const std::string& mode) {
  return has(mode, "low-latency") || has(mode, "ll-") || has(mode, "decode");
}

WirePattern pattern_of(const Row& row) {
  if (row.nodes() < 2) return WirePattern::per_rank;
  const bool is_v2 = has(row["backend"], "deepep-v2");
  if (has(row["backend"], "pplx") || has(row["backend"], "nccl")) return WirePattern::per_copy;
  return is_one_sided_by_copy(row["kernel_mode"]) && !is_v2 ? WirePattern::per_copy : WirePattern::per_node;
}

std::vector<double> exchange_terms(const Instance& instance, const MoeBytes& bytes, double nodes,
                                   double messages_per_s) {
  const double nic_s = bytes.nic_bytes / (instance.efa_gbyte_per_s * kGbyte);
  return {instance.latency_us * 1e-6, nic_s, nic_s * std::log2(nodes),
          bytes.nvlink_bytes / (instance.nvlink_gbyte_per_s * kGbyte), bytes.nic_messages / messages_per_s};
}

// A million messages a second: the scale of a proxy thread's rate, so that the coefficient is of order 1.
constexpr double kMessagesPerS = 1e6;

std::optional<FitSample> dispatch_or_combine(const Row& row) {
  const double tokens = number(row["tokens_per_rank"]), hidden = number(row["hidden"]);
  const int experts = static_cast<int>(number(row["experts"]));
  if (tokens == 0 || hidden == 0 || experts == 0 || row.ranks() < 2) return std::nullopt;
  const bool is_fp8 = row["op"] == "dispatch" && row["dtype"] == "fp8";
  const MoeBytes bytes = moe_bytes({.pattern = pattern_of(row),
                                    .tokens = tokens,
                                    .row_bytes = is_fp8 ? hidden + 4 * hidden / 128 : 2 * hidden,
                                    .experts = experts,
                                    .top_k = static_cast<int>(number(row["topk"])),
                                    .ranks = static_cast<int>(row.ranks()),
                                    .ranks_per_node = static_cast<int>(row.local()),
                                    .groups_max = has(row["notes"], "group-limited") ? 4 : 0});
  const double value = number(row["value"]);
  if (value <= 0) return std::nullopt;
  const bool is_time = row["unit"] == "us";
  const std::string what = row["backend"] + (is_one_sided_by_copy(row["kernel_mode"]) ? " by copy " : " ") + row["op"];
  std::vector<std::string> effects = row.effects(what);
  effects.push_back(row["op"]);
  return FitSample{.measured_s = is_time ? value * 1e-6 : bytes.logical_bytes / (value * kGbyte),
                   .physical_s = exchange_terms(row.instance, bytes, row.nodes(), kMessagesPerS),
                   .effects = effects};
}

// All weights move once, in bf16 or in one byte each.
std::optional<Observation> weight_sync(const CsvRow& row, std::size_t line) {
  const auto model = published_model(row.at("model"));
  const double seconds = number(row.at("value"));
  if (row.at("metric") != "weight_sync" || !model || seconds <= 0) return std::nullopt;
  const std::string how = row.at("mode") + row.at("model");
  const double bytes_per_weight = has(how, "FP8") || has(how, "fp8") ? 1 : 2;
  return Observation{.id = fmt::format("rl-line-{}", line),
                     .campaign = row.at("source"),
                     .operation = "weight_sync",
                     .regime = "all",
                     .backend = row.at("system"),
                     .cell = row.at("model") + row.at("gpus"),
                     .sample = {.measured_s = seconds, .physical_s = weight_sync_terms(*model, bytes_per_weight)}};
}

std::optional<FitSample> train_step(const Row& row) {
  const std::string notes = row["notes"], mode = row["kernel_mode"];
  const auto model = published_model(notes);
  const double sequence = number_behind(notes, "seq"), micro = number_behind(mode, "mb"),
               expert = std::max(number_behind(mode, "ep"), number_behind(notes, "EP"));
  TrainStep step{.split = {.gpus = static_cast<int>(row.ranks()),
                           .tensor = static_cast<int>(number_behind(notes, "TP")),
                           .pipeline = static_cast<int>(number_behind(notes, "PP")),
                           .expert = static_cast<int>(expert)},
                 .sequences = number_behind(notes, "gbs"),
                 .tokens_per_sequence = sequence > 0 ? sequence : 4096,
                 .micro_sequences = micro,
                 .pattern = training_pattern(row["backend"]),
                 .recompute = has(notes, "recompute=FULL") ? Recompute::full : Recompute::none,
                 .overlap = has(mode, "ovlon") ? Overlap::on : Overlap::off};
  if (!model || step.split.tensor * step.split.pipeline * expert * step.sequences * micro == 0) return std::nullopt;
  return FitSample{.measured_s = number(row["value"]),
                   .physical_s = train_terms(*model, step, row.instance),
                   .effects = training_effects(row["backend"], row.instance, micro)};
}

}  // namespace

std::vector<double> weight_sync_terms(const ModelShape& shape, double bytes_per_weight) {
  constexpr double rate = 50 * kGbyte;
  return {1, static_cast<double>(count_parameters(shape).total) * bytes_per_weight / rate};
}

WirePattern training_pattern(const std::string& backend) {
  return has(backend, "nccl") ? WirePattern::per_copy : WirePattern::per_node;
}

std::vector<std::string> training_effects(const std::string& backend, const Instance& instance, double micro) {
  return {backend, backend + " " + instance.name, fmt::format("{} mb{:g}", backend, micro)};
}

const std::vector<CostTerm>& cost_terms(const std::string& operation) {
  static const std::vector<CostTerm> collective = {
      {"latency", 1}, {"latency of each node", 0}, {"nic", 1}, {"nic by log2 of nodes", 0}, {"nvlink", 1}};
  static const std::vector<CostTerm> exchange = {
      {"latency", 1}, {"nic", 1}, {"nic by log2 of nodes", 0}, {"nvlink", 1}, {"row of 1 us", 0}};
  static const std::vector<CostTerm> train = {{"flop", 1, 1},        {"layer of 1 ms", 0},    {"nic exposed", 1, 1},
                                              {"nic overlapped", 0}, {"exchange of 1 ms", 0}, {"nvlink", 1, 1},
                                              {"update", 1, 1}};
  static const std::vector<CostTerm> sync = {{"pause of 1 s", 0}, {"weights at 50 GB/s", 1}};
  if (operation == "weight_sync") return sync;
  return operation == "collective" ? collective : operation == "train_step" ? train : exchange;
}

std::vector<double> least_coefficients(const std::string& operation) {
  std::vector<double> least;
  for (const CostTerm& term : cost_terms(operation)) least.push_back(term.least);
  return least;
}

Published read_published(const std::vector<CsvRow>& rows, const std::vector<Instance>& instances) {
  Published published;
  std::set<std::string> has_time;  // cells for which a time is published: their bandwidth is the same figure again
  const auto cell_of = [](const CsvRow& row) {
    return row.at("id").substr(0, row.at("id").rfind('-')) + "|" + row.at("op") + "|" + row.at("kernel_mode") + "|" +
           row.at("gpus") + "|" + row.at("instance") + "|" + row.at("tokens_per_rank") + "|" + row.at("dtype");
  };
  for (const CsvRow& row : rows) {
    if (row.contains("id") && row.at("unit") == "us") has_time.insert(cell_of(row) + row.at("backend"));
  }
  std::size_t line = 1;  // of a table by system; the first names the columns
  for (const CsvRow& fields : rows) {
    if (fields.contains("system")) {
      if (auto seen = weight_sync(fields, ++line)) {
        published.observations.push_back(*seen);
      } else {
        ++published.left_out;
      }
      continue;
    }
    const auto instance = std::find_if(instances.begin(), instances.end(), [&](const Instance& candidate) {
      return fields.contains("id") && candidate.name == fields.at("instance");
    });
    std::optional<FitSample> sample;
    Observation seen;
    if (instance != instances.end()) {
      const Row row{fields, *instance};
      seen = {.id = row["id"],
              .campaign = row["id"].substr(0, row["id"].rfind('-')),
              .operation = row["op"],
              .regime = "all",
              .backend = row["backend"],
              .cell = cell_of(fields)};
      const std::string& metric = row["metric"];
      if (row["op"] == "dispatch" || row["op"] == "combine") {
        seen.regime = number(row["tokens_per_rank"]) <= kLatencyTokensMax ? "latency" : "bandwidth";
        const bool is_once =
            metric == "latency" || (metric == "bandwidth" && !has_time.contains(seen.cell + seen.backend));
        if (is_once) sample = dispatch_or_combine(row);
      } else if (row["op"] == "train_step") {
        if (metric == "iter_time_mean") sample = train_step(row);
      } else if (row["backend"] == "nccl" && has(metric, "busbw")) {
        seen.operation = "collective";
        seen.regime = row["op"];
        sample = collective(row);
      }
    }
    if (!sample) {
      ++published.left_out;
      continue;
    }
    seen.sample = *sample;
    published.observations.push_back(seen);
  }
  return published;
}

}  // namespace mrb
