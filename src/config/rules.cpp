#include "config/rules.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "config/roles.hpp"

namespace mrb {

namespace {

constexpr std::int64_t kAnswersMax = 1 << 24;  // of a step: token counts stay far from overflow

using Misfits = std::vector<Misfit>;

std::string divisors(int number) {
  std::string text;
  for (int divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", divisor);
  }
  return text;
}

void check_experts(const Config& config, Misfits& found) {
  const ModelShape& model = config.model;
  if (model.top_k > model.experts) {
    found.push_back({{"model.top_k", "model.experts"},
                     fmt::format("top_k is {}, and there are {} experts", model.top_k, model.experts),
                     fmt::format("use a top_k of 1 to {}", model.experts)});
  }
  if (config.schedule.name == "colocated" && model.experts % config.ranks != 0) {
    found.push_back({{"ranks", "model.experts"},
                     fmt::format("{} experts do not divide over {} ranks", model.experts, config.ranks),
                     fmt::format("use one of: {} ranks", divisors(model.experts))});
  }
  if (config.ranks_per_node > 0 && config.ranks % config.ranks_per_node != 0) {
    found.push_back({{"ranks_per_node", "ranks"},
                     fmt::format("{} ranks do not divide over nodes of {}", config.ranks, config.ranks_per_node),
                     fmt::format("use a ranks_per_node of 0, or one of: {}", divisors(config.ranks))});
  }
}

void check_roles(const Config& config, Misfits& found) {
  const Roles roles = roles_of(config);
  if (!roles.apart) return;
  const ScheduleConfig& schedule = config.schedule;
  if (roles.rollout_ranks == 0 && schedule.rollout_ranks == 0) {
    const Ratio ratio = parse_ratio(schedule.rollout_train_ratio);
    found.push_back({{"ranks", "schedule.rollout_train_ratio"},
                     fmt::format("{} ranks do not divide into {} that generate to {} that train", config.ranks,
                                 ratio.rollout, ratio.train),
                     fmt::format("use a multiple of {} ranks, another ratio, or schedule.rollout_ranks",
                                 ratio.rollout + ratio.train)});
    return;
  }
  if (roles.train_ranks < 1) {
    found.push_back(
        {{"ranks", "schedule.rollout_ranks"},
         fmt::format("{} of {} ranks generate, and none is left to train", roles.rollout_ranks, config.ranks),
         config.ranks > 1 ? fmt::format("use rollout_ranks of 1 to {}", config.ranks - 1)
                          : std::string("use more ranks, or schedule: colocated")});
    return;
  }
  if (roles.rollout_ranks % roles.rollout_expert_parallel != 0) {
    found.push_back({{"rollout.expert_parallel", "schedule.rollout_ranks"},
                     fmt::format("{} ranks that generate do not divide into groups of {}", roles.rollout_ranks,
                                 roles.rollout_expert_parallel),
                     fmt::format("use one of: {}", divisors(roles.rollout_ranks))});
  }
  const auto divide = [&](int ranks, const char* what, std::vector<std::string> keys) {
    if (config.model.experts % ranks == 0) return;
    found.push_back({std::move(keys),
                     fmt::format("{} experts do not divide over the {} ranks {}", config.model.experts, ranks, what),
                     fmt::format("use one of: {}", divisors(config.model.experts))});
  };
  divide(roles.train_ranks, "that train", {"model.experts", "ranks", "schedule.rollout_ranks"});
  divide(roles.rollout_expert_parallel, "that share them to generate", {"model.experts", "rollout.expert_parallel"});
}

void check_rollout(const Config& config, Misfits& found) {
  const std::int64_t longest = config.grpo.prompt_tokens + config.grpo.response_tokens_max;
  const std::int64_t slot_bytes = longest * kv_bytes_per_token(config.model, sizeof(float));
  if (config.rollout.kv_cache_bytes == 0 || config.rollout.kv_cache_bytes >= slot_bytes) return;
  found.push_back({{"rollout.kv_cache_bytes", "grpo.prompt_tokens", "grpo.response_tokens_max"},
                   fmt::format("the cache is to hold {} bytes, and one prompt with its longest answer takes {}",
                               config.rollout.kv_cache_bytes, slot_bytes),
                   fmt::format("use at least {}, or 0", slot_bytes)});
}

void check_layers(const ModelShape& model, Misfits& found) {
  if (model.dense_layers >= model.layers) {
    found.push_back(
        {{"model.dense_layers", "model.layers"},
         fmt::format("{} of {} layers are dense, and at least one must have experts", model.dense_layers, model.layers),
         model.layers == 1 ? std::string("use dense_layers of 0, or more layers")
                           : fmt::format("use dense_layers of 0 to {}", model.layers - 1)});
  }
  if (model.dense_layers > 0 && model.dense_ff == 0) {
    found.push_back({{"model.dense_layers", "model.dense_ff"},
                     fmt::format("{} layers are dense, and dense_ff is 0", model.dense_layers),
                     "give model.dense_ff a width"});
  }
  if (model.heads % model.kv_heads != 0) {
    found.push_back({{"model.heads", "model.kv_heads"},
                     fmt::format("{} heads do not divide over {} kv_heads", model.heads, model.kv_heads),
                     fmt::format("make heads a multiple of kv_heads; {} heads take kv_heads of {}", model.heads,
                                 divisors(model.heads))});
  }
  if (model.head_dim % 2 != 0) {
    found.push_back({{"model.head_dim"},
                     fmt::format("head_dim is {}, and rotary positions turn pairs", model.head_dim),
                     fmt::format("make it even: {} or {}", model.head_dim - 1, model.head_dim + 1)});
  }
}

void check_grpo(const GrpoConfig& grpo, Misfits& found) {
  if (grpo.lengths == "until_end" && grpo.response_tokens_min > grpo.response_tokens_max) {
    found.push_back({{"grpo.response_tokens_min", "grpo.response_tokens_max"},
                     fmt::format("response_tokens_min is {}, above response_tokens_max of {}", grpo.response_tokens_min,
                                 grpo.response_tokens_max),
                     "make the smaller one the minimum"});
  }
  if (grpo.lengths == "lognormal" && grpo.length_mean > grpo.response_tokens_max) {
    found.push_back(
        {{"grpo.length_mean", "grpo.response_tokens_max", "grpo.lengths"},
         fmt::format("length_mean is {}, above response_tokens_max of {}", grpo.length_mean, grpo.response_tokens_max),
         "raise response_tokens_max, to some times the mean if the tail is to be seen"});
  }
  if (grpo.overlong_tokens > grpo.response_tokens_max) {
    found.push_back({{"grpo.overlong_tokens", "grpo.response_tokens_max"},
                     fmt::format("overlong_tokens is {}, and answers have at most {} tokens", grpo.overlong_tokens,
                                 grpo.response_tokens_max),
                     fmt::format("use overlong_tokens of 0 to {}", grpo.response_tokens_max)});
  }
  const std::int64_t answers = std::int64_t{grpo.prompts} * grpo.group_size;
  if (grpo.minibatches > answers) {
    found.push_back({{"grpo.minibatches", "grpo.prompts", "grpo.group_size"},
                     fmt::format("{} minibatches of {} answers leave some empty", grpo.minibatches, answers),
                     fmt::format("use 1 to {} minibatches, or more prompts", answers)});
  }
  if (answers > kAnswersMax) {
    found.push_back(
        {{"grpo.prompts", "grpo.group_size"},
         fmt::format("{} prompts with {} answers each are {} answers a step", grpo.prompts, grpo.group_size, answers),
         fmt::format("use at most {} answers a step", kAnswersMax)});
  }
  if (grpo.advantage == "pass_at_k" && grpo.group_size < 2) {
    found.push_back({{"grpo.advantage", "grpo.group_size"},
                     "advantage is pass_at_k, the best answer's lead over the second, and group_size is 1",
                     "use a group_size of 2 or more, or another advantage"});
  }
  if (grpo.objective == "gspo" && (grpo.correction.ends_with("token") || grpo.correction == "decoupled")) {
    found.push_back({{"grpo.correction", "grpo.objective"},
                     fmt::format("objective gspo has one ratio for an answer, and correction {} one for each token",
                                 grpo.correction),
                     "use a correction by sequence, such as truncate_sequence, or none"});
  }
  if (grpo.preset == "verl" && grpo.objective == "gspo" && grpo.aggregation != "sequence_mean") {
    found.push_back({{"grpo.aggregation", "grpo.objective", "grpo.preset"},
                     fmt::format("aggregation is {}, and verl averages gspo by sequence_mean whatever it is told",
                                 grpo.aggregation),
                     "set aggregation: sequence_mean, or leave the preset out"});
  }
  if (grpo.dual_clip > 0 && grpo.dual_clip <= 1) {
    found.push_back(
        {{"grpo.dual_clip"},
         fmt::format("dual_clip is {}, and would bound the loss of answers that did not change", grpo.dual_clip),
         "use a number above 1, such as 3, or 0 to switch it off"});
  }
}

void check_execution(const Config& config, Misfits& found) {
  if (config.model.attention != "gqa") {
    found.push_back({{"model"},
                     fmt::format("model '{}' has {} attention, which cannot be run here; its shape is for planning",
                                 config.model.name, config.model.attention),
                     "use a model with grouped-query attention, such as small or qwen3-30b-a3b"});
  }
  if (config.transport.name == "libfabric" && config.transport.provider.empty()) {
    found.push_back({{"transport.provider", "transport"},
                     "transport 'libfabric' needs a provider, and there is no default",
                     "set transport.provider to tcp, shm or efa"});
  }
  if (config.grpo.lengths == "empirical" && config.grpo.length_file.empty()) {
    found.push_back({{"grpo.length_file", "grpo.lengths"},
                     "lengths is empirical, and there is no length_file",
                     "set grpo.length_file to a file with one length in tokens per line"});
  }
  if (config.chaos.seed > 0 && config.chaos.stop_rank >= config.ranks) {
    found.push_back({{"chaos.stop_rank", "ranks"},
                     fmt::format("rank {} is to stop, and there are {} ranks", config.chaos.stop_rank, config.ranks),
                     fmt::format("use a stop_rank of 0 to {}, or -1 for none", config.ranks - 1)});
  }
}

}  // namespace

std::vector<Misfit> misfits(const Config& config, Purpose purpose) {
  Misfits found;
  if (purpose == Purpose::examine) return found;
  check_experts(config, found);
  check_roles(config, found);
  check_rollout(config, found);
  check_layers(config.model, found);
  check_grpo(config.grpo, found);
  if (purpose == Purpose::run || purpose == Purpose::tune) check_execution(config, found);
  return found;
}

}  // namespace mrb
