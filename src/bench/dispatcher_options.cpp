#include "bench/dispatcher_options.hpp"

#include <algorithm>
#include <numeric>

#include "config/roles.hpp"

namespace mrb {

Config side_config(const Config& config, bool trains, int ranks_per_node) {
  const Roles roles = roles_of(config);
  Config side = config;
  if (!roles.apart) return side;
  side.ranks = trains ? roles.train_ranks : roles.rollout_expert_parallel;
  if (!trains) {
    if (config.rollout.dispatcher != "same") side.dispatcher.name = config.rollout.dispatcher;
    const int groups = roles.rollout_ranks / roles.rollout_expert_parallel;
    side.grpo.prompts = (config.grpo.prompts + groups - 1) / groups;
  }
  // Ranks that train come first. Where a side does not begin and end with nodes, what both have of them are its nodes.
  const int node = config.ranks_per_node > 0 ? config.ranks_per_node : ranks_per_node;
  if (node > 0) side.ranks_per_node = std::gcd(std::gcd(node, side.ranks), trains ? 0 : roles.train_ranks);
  return side;
}

std::int64_t tokens_per_call_max(const Config& config) {
  const GrpoConfig& grpo = config.grpo;
  const std::int64_t prompts = (std::int64_t{grpo.prompts} + config.ranks - 1) / config.ranks;
  const std::int64_t answers = prompts * grpo.group_size;
  const std::int64_t length = std::int64_t{grpo.prompt_tokens} + grpo.response_tokens_max;
  // In flight, a step's last prompt and the next one's first may be admitted together.
  const std::int64_t admitted = prompts + (config.schedule.in_flight ? 1 : 0);
  const std::int64_t micro_batch = std::min(answers * length, std::max<std::int64_t>(grpo.micro_batch_tokens, length));
  return std::max({admitted * grpo.prompt_tokens, answers, micro_batch});
}

DispatcherOptions dispatcher_options(const Config& config, int ranks_per_node) {
  const DispatcherConfig& dispatcher = config.dispatcher;
  DispatcherOptions options{
      .hidden = config.model.hidden,
      .placement = {config.model.experts, config.ranks,
                    config.ranks_per_node > 0 ? config.ranks_per_node : ranks_per_node},
      .top_k = config.model.top_k,
      .dispatch_wire = parse_wire_type(dispatcher.dispatch_dtype),
      .combine_wire = parse_wire_type(dispatcher.combine_dtype),
      .tokens_max = dispatcher.tokens_max > 0 ? dispatcher.tokens_max : tokens_per_call_max(config),
      .prefix_rows = dispatcher.prefix_rows};
  if (dispatcher.dedup == "none") options.dedup = Dedup::none;
  if (dispatcher.dedup == "node") options.dedup = Dedup::node;
  if (dispatcher.batching == "token") options.batching = Batching::token;
  if (dispatcher.batching == "rank") options.batching = Batching::rank;
  return options;
}

TransportOptions transport_options(const Config& config) {
  const TransportConfig& transport = config.transport;
  return {.provider = transport.provider,
          .rails = transport.rails,
          .progress = transport.progress,
          .chaos = {.seed = config.chaos.seed,
                    .late_start_ms = config.chaos.late_start_ms,
                    .stop_rank = config.chaos.stop_rank,
                    .stop_after_puts = config.chaos.stop_after_puts}};
}

}  // namespace mrb
