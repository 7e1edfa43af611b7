#include "bench/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "bench/dispatcher_options.hpp"
#include "config/roles.hpp"
#include "config/rules.hpp"
#include "grpo/weight_mail.hpp"
#include "model/parameters.hpp"

namespace mrb {

namespace {

// What the mail of answers and weights holds (grpo/trajectory_mail.hpp, weight_mail.hpp), at most.
std::uint64_t mail_bytes(const Config& config, bool trains) {
  const Roles roles = roles_of(config);
  if (!roles.apart) return 0;
  const int sharing = trains ? roles.train_ranks : roles.rollout_expert_parallel;
  const ParameterLayout weights = lay_out_parameters(config.model, config.model.experts / sharing);
  const GrpoConfig& grpo = config.grpo;
  const int ranks = trains ? roles.train_ranks : roles.rollout_ranks;
  const std::int64_t answers = std::int64_t{(grpo.prompts + ranks - 1) / ranks} * grpo.group_size;
  const std::int64_t answer_bytes = 4LL * grpo.prompt_tokens + 8LL * grpo.response_tokens_max + 64;
  return static_cast<std::uint64_t>((trains ? 1 : WeightMail::kRoom) * weights.count * 4 +
                                    (staleness_max(config.schedule) + 1) * answers * answer_bytes);
}

// Why one side cannot run; empty when it can.
std::string reason_to_skip_side(const Config& whole, bool trains, const PlanLimits& limits) {
  const Config config = side_config(whole, trains, limits.ranks_per_node);
  const DispatcherOptions options = dispatcher_options(config, limits.ranks_per_node);
  const DispatcherCapabilities capabilities = dispatcher_capabilities(config.dispatcher.name, options);
  if (const std::string misfit = dispatcher_misfit(capabilities, options); !misfit.empty()) return misfit;
  if (const std::int64_t tokens = tokens_per_call_max(config); tokens > capabilities.tokens_max) {
    return fmt::format(
        "dispatcher '{}' would have room for {} tokens of a rank in one call (dispatcher.tokens_max), and "
        "there may be {}",
        capabilities.name, capabilities.tokens_max, tokens);
  }
  if (const std::string misfit = transport_misfit(config); !misfit.empty()) return misfit;
  const std::uint64_t needed = estimate_memory_bytes(config) + capabilities.buffer_bytes + mail_bytes(whole, trains);
  if (limits.memory_bytes_per_rank > 0 && needed > limits.memory_bytes_per_rank) {
    return fmt::format(
        "it needs about {} a rank (weights, their gradients, moments and packed copies, cache, activations; and {} for "
        "dispatch: {}), and there are {}",
        bytes_text(needed), bytes_text(capabilities.buffer_bytes), capabilities.buffer_formula,
        bytes_text(limits.memory_bytes_per_rank));
  }
  return "";
}

// Empty when the experiment can run.
std::string reason_to_skip(const Config& config, const PlanLimits& limits) {
  const auto found = misfits(config, Purpose::run);
  if (!found.empty()) return found.front().problem;
  std::string reason = reason_to_skip_side(config, true, limits);
  if (reason.empty() && roles_of(config).apart) reason = reason_to_skip_side(config, false, limits);
  return reason;
}

// What is computed, and how: equal in every run that does the same, however long it measures and wherever it writes.
std::string identity(const Config& config) {
  return canonical_lines(config, FieldSet::workload) + canonical_lines(config, FieldSet::method) +
         fmt::format("ranks={}\n", config.ranks);
}

// Each block: all experiments in an order drawn from the seed, then in its mirror image.
std::vector<std::vector<int>> draw_blocks(int experiments, int blocks, std::uint64_t seed) {
  std::vector<std::vector<int>> result;
  for (int block = 0; block < blocks; ++block) {
    std::vector<int> order(static_cast<std::size_t>(experiments));
    std::iota(order.begin(), order.end(), 0);
    Random random({seed, Random::order, static_cast<std::uint64_t>(block)});
    for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
    const std::vector<int> mirrored(order.rbegin(), order.rend());
    order.insert(order.end(), mirrored.begin(), mirrored.end());
    result.push_back(std::move(order));
  }
  return result;
}

// A workload whose baseline was skipped is compared with its first experiment that runs, and a note says so.
void settle_baselines(Plan& plan) {
  std::map<std::string, bool> has_baseline;
  for (const Experiment& experiment : plan.experiments) has_baseline[experiment.workload_id] |= experiment.is_baseline;
  for (Experiment& experiment : plan.experiments) {
    if (has_baseline[experiment.workload_id]) continue;
    experiment.is_baseline = has_baseline[experiment.workload_id] = true;
    for (const SkippedExperiment& skipped : plan.skipped) {
      if (!skipped.experiment.is_baseline || skipped.experiment.workload_id != experiment.workload_id) continue;
      plan.notes.push_back(fmt::format("the baseline, {}, cannot run here; {} takes its place",
                                       skipped.experiment.label, experiment.label));
    }
  }
}

}  // namespace

std::string transport_misfit(const Config& config) {
  const TransportConfig& transport = config.transport;
  if (transport.name == "libfabric" && transport.provider.empty()) {
    return "transport 'libfabric' needs a provider: set transport.provider to tcp, shm or efa";
  }
  if (transport.name == "loopback" && config.ranks > 1) {
    return fmt::format("transport 'loopback' stays within one process, and there are {} ranks", config.ranks);
  }
  return "";
}

std::set<std::string> notes_on(const Config& config, int ranks_per_node) {
  std::set<std::string> notes;
  const int real = ranks_per_node > 0 ? ranks_per_node : config.ranks;
  if (config.ranks_per_node != 0 && config.ranks_per_node != real) {
    notes.insert(fmt::format("emulated nodes: the dispatchers take {} ranks for a node, and the machines have {} each",
                             config.ranks_per_node, real));
  }
  if (config.chaos.seed > 0) {
    notes.insert("chaos: puts are held, reordered, split and refused at random, so times mean nothing");
  }
  return notes;
}

std::string point_label(const Point& point) {
  std::string label;
  const auto add = [&](const std::string& text) { label += (label.empty() ? "" : " ") + text; };
  for (const auto& [key, value] : point.workload) add(key.substr(key.find('.') + 1) + "=" + value);
  const auto& method = point.method;
  if (method.contains("dispatcher")) add(point.config.dispatcher.name);
  if (method.contains("schedule")) add(point.config.schedule.name);
  if (method.contains("transport") || method.contains("transport.provider")) {
    const auto& transport = point.config.transport;
    add(transport.name == "libfabric" ? transport.name + "/" + transport.provider : transport.name);
  }
  for (const auto& [key, value] : method) {
    if (key == "dispatcher" || key == "schedule" || key == "transport" || key == "transport.provider") continue;
    add(key.substr(key.find('.') + 1) + "=" + value);
  }
  return label.empty() ? point.config.dispatcher.name + " " + point.config.transport.name : label;
}

std::string short_hash(const std::string& canonical) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : canonical) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return fmt::format("{:016x}", hash);
}

std::uint64_t estimate_memory_bytes(const Config& config) {
  const ModelShape& model = config.model;
  const auto local = [&](std::int64_t all) { return (all + config.ranks - 1) / config.ranks; };
  const ParameterCount count = count_parameters(model);
  const std::int64_t weights = count.total - count.experts + local(count.experts);
  const std::int64_t packed_bytes = config.compute.dtype == "bf16" ? 2 : 4;
  const std::int64_t policies = config.grpo.kl_coef > 0 ? 2 : 1;
  const std::int64_t state = weights * (policies * (4 + 4 + packed_bytes) + 4 + 4);

  const GrpoConfig& grpo = config.grpo;
  const std::int64_t length = grpo.prompt_tokens + grpo.response_tokens_max;
  const std::int64_t answers = local(grpo.prompts) * grpo.group_size;
  const std::int64_t cache = answers * length * kv_bytes_per_token(model, 4);

  // Kept by forward(): inputs of both blocks, the fused projection, attention's output, and per copy its row and its
  // two inner halves.
  const std::int64_t tokens =
      std::max<std::int64_t>(length, std::min<std::int64_t>(grpo.micro_batch_tokens, answers * length));
  const std::int64_t per_token = 2 * model.hidden +
                                 (2 * model.heads + 2 * model.kv_heads) * std::int64_t{model.head_dim} +
                                 model.top_k * (model.hidden + 2 * std::int64_t{model.expert_ff});
  const std::int64_t activations = tokens * per_token * model.layers * 4;
  return static_cast<std::uint64_t>(state + cache + activations);
}

Plan make_plan(const Settings& settings, const PlanLimits& limits) {
  Plan plan;
  for (const Point& point : expand(settings)) {
    Experiment experiment{.id = short_hash(identity(point.config)),
                          .workload_id = short_hash(canonical_lines(point.config, FieldSet::workload)),
                          .label = point_label(point),
                          .is_baseline = point.is_baseline,
                          .config = point.config};
    const std::string reason = reason_to_skip(point.config, limits);
    if (reason.empty()) {
      plan.experiments.push_back(std::move(experiment));
    } else {
      plan.skipped.push_back({std::move(experiment), reason});
    }
  }
  if (plan.experiments.empty()) {
    std::string reasons;
    for (const SkippedExperiment& skipped : plan.skipped) {
      const std::string line = fmt::format("\n  {}: {}", skipped.experiment.label, skipped.reason);
      if (reasons.find(skipped.reason) == std::string::npos) reasons += line;
    }
    throw Error(ErrorKind::config, "nothing of this configuration can run here:" + reasons,
                "change what the reasons name; moe-rl-bench list shows what this build has");
  }
  settle_baselines(plan);
  std::set<std::string> notes;
  for (const Experiment& experiment : plan.experiments) {
    notes.merge(notes_on(experiment.config, limits.ranks_per_node));
  }
  plan.notes.insert(plan.notes.end(), notes.begin(), notes.end());
  const Config& first = plan.experiments.front().config;
  plan.blocks = draw_blocks(static_cast<int>(plan.experiments.size()), first.measure.blocks, first.seed);
  return plan;
}

}  // namespace mrb
