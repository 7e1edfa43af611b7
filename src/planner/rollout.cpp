#include "planner/rollout.hpp"

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "planner/memory.hpp"

namespace mrb {

namespace {

constexpr int kQuantiles = 32;
constexpr double kReadRatio = 0.8, kFlopRatio = 0.6, kMemoryRatio = 0.9;
constexpr double kExchangeOnNodeS = 10e-6;

}  // namespace

LengthProfile length_profile(const LengthDistribution& lengths, int answers) {
  LengthProfile profile;
  for (int i = 0; i < kQuantiles; ++i) profile.quantiles.push_back(lengths.quantile((i + 0.5) / kQuantiles));
  profile.mean_tokens = lengths.mean_cut();
  profile.resident_tokens = lengths.mean_square_cut() / (2 * profile.mean_tokens);
  profile.longest_tokens = lengths.longest_of(answers);
  return profile;
}

std::optional<RolloutCost> rollout_cost(const ModelShape& shape, const RolloutBatch& batch,
                                        const LengthProfile& lengths, const Instance& instance, int gpus,
                                        int engine_gpus) {
  RolloutCost cost;
  cost.weight_gbyte = rollout_weight_bytes(shape, engine_gpus) / kGbyte;
  cost.kv_gbyte = kMemoryRatio * instance.hbm_gbyte - cost.weight_gbyte;
  const double held = batch.prompt_tokens / batch.group_size + lengths.resident_tokens;
  cost.slots_by_memory = std::floor(cost.kv_gbyte * kGbyte / (held * kv_bytes_per_gpu(shape, engine_gpus)));
  if (cost.slots_by_memory < 1) return std::nullopt;

  const bool spans_nodes = engine_gpus > instance.nvlink_domain_gpus;
  const double exchange_s = spans_nodes ? instance.latency_us * 1e-6 : engine_gpus > 1 ? kExchangeOnNodeS : 0;
  const double flop_per_s = kFlopRatio * instance.bf16_tflop_per_s * kTflop;
  const DecodeCost decode =
      decode_cost(shape, {.gpus = engine_gpus,
                          .read_byte_per_s = engine_gpus * kReadRatio * instance.hbm_gbyte_per_s * kGbyte,
                          .flop_per_s = engine_gpus * flop_per_s,
                          .fixed_s = 2 * shape.layers * exchange_s});
  const double prompts = static_cast<double>(batch.answers) / batch.group_size;
  const double prefill_s =
      prompts * batch.prompt_tokens * forward_flop(shape, batch.prompt_tokens / 2) / (gpus * flop_per_s);
  cost.decode = decode;
  cost.resident_tokens = lengths.resident_tokens;
  cost.prefill_s = prefill_s;
  const double engines = static_cast<double>(gpus) / engine_gpus;
  const double share = std::max(1.0, batch.answers / engines);
  cost.slots = std::min(share, cost.slots_by_memory);
  cost.token_s = decode.step_s(cost.slots, batch.prompt_tokens + lengths.resident_tokens);
  cost.sustained_s = prefill_s + share / cost.slots * lengths.mean_tokens * cost.token_s;
  cost.longest_s = lengths.longest_tokens * cost.token_s;

  const double refill_s = (share - cost.slots) / cost.slots * lengths.mean_tokens * cost.token_s;
  const double weight = cost.slots / static_cast<double>(lengths.quantiles.size());
  double drain = 0, tail = 0, generated = 0;
  for (std::size_t i = 0; i <= lengths.quantiles.size(); ++i) {
    const bool is_longest = i == lengths.quantiles.size();
    const double until = is_longest ? std::max(lengths.longest_tokens, generated) : lengths.quantiles[i];
    const double alive = is_longest ? 1 : std::max(1.0, cost.slots - static_cast<double>(i) * weight);
    const double s = (until - generated) * decode.step_s(alive, batch.prompt_tokens + (generated + until) / 2);
    drain += s;
    if (2 * i >= lengths.quantiles.size()) tail += s;
    generated = until;
  }
  cost.seconds = prefill_s + refill_s + drain;
  cost.tail_ratio = tail / cost.seconds;
  return cost;
}

}  // namespace mrb
