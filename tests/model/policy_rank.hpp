// A policy with all it stands on, on one rank, over the loopback transport.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "cluster/bootstrap.hpp"
#include "dispatch/dispatcher.hpp"
#include "model/policy.hpp"
#include "transport/channel.hpp"
#include "transport/transport.hpp"

namespace mrb::test {

inline const SteadyClock kSteadyClock;

struct PolicyOptions {
  std::string dispatcher = "alltoall";
  std::string dtype = "f32";
  std::uint64_t seed = 1;
};

// Collective over the ranks of `bootstrap`.
struct PolicyRank {
  PolicyRank(Bootstrap& bootstrap, const ModelShape& shape, const PolicyOptions& options = {},
             const Clock& clock = kSteadyClock)
      : placement{shape.experts, bootstrap.size()},
        transport(make_transport("loopback", bootstrap, {})),
        channel(*transport, bootstrap, 60),
        compute(make_compute("cpu", {.dtype = options.dtype, .threads = 1})),
        dispatcher(make_dispatcher(
            options.dispatcher, channel,
            {.hidden = shape.hidden, .placement = placement, .top_k = shape.top_k, .tokens_max = 4096})),
        phases(clock),
        policy(shape, placement, bootstrap.rank(), options.seed, {*compute, *dispatcher, phases}) {}

  ExpertPlacement placement;
  std::unique_ptr<Transport> transport;
  Channel channel;
  std::unique_ptr<ComputeBackend> compute;
  std::unique_ptr<Dispatcher> dispatcher;
  PhaseClock phases;
  Policy policy;
};

// One rank alone.
struct SoloPolicy {
  explicit SoloPolicy(const ModelShape& shape, const PolicyOptions& options = {}, const Clock& clock = kSteadyClock)
      : bootstrap(make_bootstrap("solo", {})), rank(*bootstrap, shape, options, clock), policy(rank.policy) {}

  std::unique_ptr<Bootstrap> bootstrap;
  PolicyRank rank;
  Policy& policy;
};

// A model with every part in it: a dense layer, experts, a shared expert, two query heads per key.
inline ModelShape every_part() {
  ModelShape shape;
  shape.layers = 3;
  shape.dense_layers = 1;
  shape.hidden = 32;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.experts = 8;
  shape.top_k = 2;
  shape.expert_ff = 16;
  shape.shared_ff = 12;
  shape.dense_ff = 40;
  shape.vocab = 19;
  return shape;
}

// Replaces the weights as drawn, which suit the beginning of training, by ones that leave nothing near zero: with
// those, routers hardly differ between experts, and most gradients drown in the last bits of f32.
inline void enlarge_weights(Policy& policy, float factor = 12) {
  for (const ParameterTensor& tensor : policy.parameters().tensors()) {
    const Matrix weight = policy.parameters().weight(tensor);
    if (tensor.rows == 1) continue;  // a gain of 1
    for (std::int64_t i = 0; i < weight.size(); ++i) weight.data[i] *= factor;
  }
  policy.publish_weights();
}

// Sequences of these lengths, with tokens drawn from (seed, sequence).
inline std::vector<std::vector<std::int32_t>> draw_sequences(std::uint64_t seed, int vocab,
                                                             const std::vector<int>& lengths) {
  std::vector<std::vector<std::int32_t>> sequences;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    Random random({seed, Random::prompts, s});
    auto& tokens = sequences.emplace_back();
    for (int t = 0; t < lengths[s]; ++t) {
      tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab))));
    }
  }
  return sequences;
}

// Sequences, and every token but each first scored by the position before it.
struct Batch {
  PackedTokens packed;
  ScoredTokens scored;

  void add(const std::vector<std::int32_t>& tokens) {
    for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
      scored.rows.push_back(static_cast<std::int32_t>(packed.tokens.size() + t));
      scored.targets.push_back(tokens[t + 1]);
    }
    packed.tokens.insert(packed.tokens.end(), tokens.begin(), tokens.end());
    packed.offsets.push_back(static_cast<std::int32_t>(packed.tokens.size()));
  }
};

inline Batch batch_of(const std::vector<std::vector<std::int32_t>>& sequences) {
  Batch batch;
  for (const auto& tokens : sequences) batch.add(tokens);
  return batch;
}

}  // namespace mrb::test
