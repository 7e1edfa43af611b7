#include "planner/published.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <regex>
#include <set>

#include "planner/model_cost.hpp"
#include "planner/moe_traffic.hpp"

namespace mrb {

namespace {

constexpr double kGbyte = 1e9, kTflop = 1e12, kMiB = 1 << 20;
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

std::optional<ModelShape> model_of(const std::string& notes) {
  if (has(notes, "Kimi-K2")) return find_model_preset("kimi-k2");
  if (has(notes, "Qwen3-235B")) return find_model_preset("qwen3-235b-a22b");
  if (has(notes, "Qwen3-30B")) return find_model_preset("qwen3-30b-a3b");
  return std::nullopt;
}

// A step is (micro-batches + stages - 1) turns of one stage: forward, backward and the exchanges of its layers.
std::optional<FitSample> train_step(const Row& row) {
  const std::string notes = row["notes"], mode = row["kernel_mode"];
  const auto model = model_of(notes);
  const double tensor = number_behind(notes, "TP"), stages = number_behind(notes, "PP"),
               data = number_behind(notes, "DP");
  const double expert = std::max(number_behind(mode, "ep"), number_behind(notes, "EP"));
  const double batch = number_behind(notes, "gbs"), sequence = number_behind(notes, "seq"),
               micro = number_behind(mode, "mb");
  if (!model || tensor * stages * data * expert * batch * micro == 0) return std::nullopt;
  const double tokens = micro * (sequence > 0 ? sequence : 4096);
  const double turns = batch / (data * micro) + stages - 1;
  const bool is_recomputed = has(notes, "recompute=FULL");
  const double layers = model->layers / stages;
  const double flop = (is_recomputed ? 4 : 3) * forward_flop(*model, tokens / micro / 2) * tokens / (tensor * stages);
  const double exchanges = turns * layers * (is_recomputed ? 6 : 4);
  const MoeBytes bytes =
      moe_bytes({.pattern = has(row["backend"], "nccl") ? WirePattern::per_copy : WirePattern::per_node,
                 .tokens = tokens / tensor,
                 .row_bytes = 2.0 * model->hidden,
                 .experts = model->experts,
                 .top_k = model->top_k,
                 .ranks = static_cast<int>(expert),
                 .ranks_per_node = static_cast<int>(std::min(expert, row.local()))});
  const double nic_s = exchanges * bytes.nic_bytes / (row.instance.efa_gbyte_per_s * kGbyte);
  const bool is_overlapped = has(mode, "ovlon");
  std::vector<std::string> effects = row.effects(row["backend"]);
  effects.push_back(fmt::format("{} mb{:g}", row["backend"], micro));
  return FitSample{
      .measured_s = number(row["value"]),
      .physical_s = {turns * flop / (row.instance.bf16_tflop_per_s * kTflop), turns * layers * 1e-3,
                     is_overlapped ? 0 : nic_s, is_overlapped ? nic_s : 0, is_overlapped ? 0 : exchanges * 1e-3},
      .effects = effects};
}

}  // namespace

const std::vector<CostTerm>& cost_terms(const std::string& operation) {
  static const std::vector<CostTerm> collective = {
      {"latency", 1}, {"latency of each node", 0}, {"nic", 1}, {"nic by log2 of nodes", 0}, {"nvlink", 1}};
  static const std::vector<CostTerm> exchange = {
      {"latency", 1}, {"nic", 1}, {"nic by log2 of nodes", 0}, {"nvlink", 1}, {"row of 1 us", 0}};
  static const std::vector<CostTerm> train = {
      {"flop", 1}, {"layer of 1 ms", 0}, {"nic exposed", 1}, {"nic overlapped", 0}, {"exchange of 1 ms", 0}};
  return operation == "collective" ? collective : operation == "train_step" ? train : exchange;
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
  for (const CsvRow& fields : rows) {
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
