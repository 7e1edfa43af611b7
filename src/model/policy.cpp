#include "model/policy.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "model/attention_block.hpp"
#include "model/context.hpp"
#include "model/head.hpp"
#include "model/mlp_block.hpp"

namespace mrb {

namespace {

struct Layer {
  Layer(const ModelContext& context, int index) : attention(context, index), mlp(context, index) {}

  AttentionBlock attention;
  MlpBlock mlp;
};

struct LayerTape {
  AttentionTape attention;
  MlpTape mlp;
};

std::vector<std::int32_t> positions_of(const PackedTokens& packed) {
  std::vector<std::int32_t> positions;
  positions.reserve(packed.tokens.size());
  for (std::size_t s = 0; s + 1 < packed.offsets.size(); ++s) {
    for (std::int32_t t = packed.offsets[s]; t < packed.offsets[s + 1]; ++t) positions.push_back(t - packed.offsets[s]);
  }
  return positions;
}

struct KeptTape final : Tape {
  PackedTokens packed;
  std::vector<std::int32_t> positions;
  ScoredTokens scored;
  double temperature = 1;
  std::vector<LayerTape> layers;
  Tensor scored_x;  // the last layer's output at the scored rows
  std::vector<float> log_sum;
};

}  // namespace

struct Policy::Parts {
  Parts(const ModelShape& model, const ExpertPlacement& placement, int rank, std::uint64_t seed, PolicyParts given)
      : shape(model),
        parameters(given.compute, shape, placement, rank),
        seeded(draw(parameters, seed)),
        context{.shape = shape,
                .parameters = parameters,
                .compute = given.compute,
                .ops = given.compute.operations(),
                .dispatcher = given.dispatcher,
                .phases = given.phases,
                .local_experts = placement.experts_per_rank()},
        head(context),
        load(static_cast<std::size_t>(shape.layers - shape.dense_layers),
             std::vector<std::int64_t>(static_cast<std::size_t>(shape.experts))) {
    for (int layer = 0; layer < shape.layers; ++layer) layers.emplace_back(context, layer);
  }

  // The weights must be there before the layers pack them.
  static bool draw(Parameters& parameters, std::uint64_t seed) {
    parameters.draw(seed);
    return true;
  }

  Matrix embedding() const { return parameters.weight(parameters.find("embedding")); }

  Tensor embed(std::span<const std::int32_t> tokens) const {
    Tensor x = context.tensor(static_cast<std::int64_t>(tokens.size()), shape.hidden);
    context.ops.tokens.embed(embedding(), tokens, x.view());
    return x;
  }

  // Where layer `index` counts its copies; a dense layer has nowhere and counts none.
  std::vector<std::int64_t>& load_of(int index) {
    return index < shape.dense_layers ? no_load : load[static_cast<std::size_t>(index - shape.dense_layers)];
  }

  // Calls after_attention(layer, tape) and after_layer(tape) as the batch goes through.
  template <class AfterAttention, class AfterLayer>
  Tensor run_layers(const PackedTokens& packed, std::span<const std::int32_t> positions,
                    const AfterAttention& after_attention, const AfterLayer& after_layer) {
    Tensor x = embed(packed.tokens);
    const RowPositions at{packed.offsets, positions};
    for (int index = 0; index < shape.layers; ++index) {
      Layer& layer = layers[static_cast<std::size_t>(index)];
      LayerTape tape;
      layer.attention.forward(x, at, tape.attention);
      after_attention(layer.attention, tape.attention);
      layer.mlp.forward(x, tape.mlp, load_of(index));
      after_layer(std::move(tape));
    }
    return x;
  }

  Tensor rows_of(const Tensor& x, std::span<const std::int32_t> rows) const {
    Tensor picked = context.tensor(static_cast<std::int64_t>(rows.size()), shape.hidden);
    context.ops.tokens.embed(x.view(), rows, picked.view());
    return picked;
  }

  ModelShape shape;
  Parameters parameters;
  bool seeded;
  ModelContext context;
  std::deque<Layer> layers;  // not moved: layers refer to the context
  Head head;
  std::vector<std::vector<std::int64_t>> load;
  std::vector<std::int64_t> no_load;
};

Policy::Policy(const ModelShape& shape, const ExpertPlacement& placement, int rank, std::uint64_t seed,
               PolicyParts parts)
    : parts_(std::make_unique<Parts>(shape, placement, rank, seed, parts)) {}

Policy::~Policy() = default;

const ModelShape& Policy::shape() const {
  return parts_->shape;
}
Parameters& Policy::parameters() {
  return parts_->parameters;
}

std::size_t Policy::publish_weights() {
  std::size_t bytes = parts_->head.publish();
  for (Layer& layer : parts_->layers) bytes += layer.attention.publish() + layer.mlp.publish();
  return bytes;
}

std::vector<float> Policy::log_probs(const PackedTokens& packed, const ScoredTokens& scored, double temperature) {
  const auto positions = positions_of(packed);
  const Tensor x = parts_->run_layers(
      packed, positions, [](auto&, auto&) {}, [](LayerTape) {});
  const Tensor picked = parts_->rows_of(x, scored.rows);
  std::vector<float> log_probs(scored.rows.size()), log_sum(scored.rows.size());
  parts_->head.log_probs(picked.view(), scored.targets, temperature, log_probs, log_sum);
  return log_probs;
}

std::unique_ptr<Tape> Policy::forward(const PackedTokens& packed, const ScoredTokens& scored, double temperature,
                                      std::vector<float>& log_probs) {
  auto tape = std::make_unique<KeptTape>();
  tape->packed = packed;
  tape->positions = positions_of(packed);
  tape->scored = scored;
  tape->temperature = temperature;
  const Tensor x = parts_->run_layers(
      packed, tape->positions, [](auto&, auto&) {}, [&](LayerTape layer) { tape->layers.push_back(std::move(layer)); });
  tape->scored_x = parts_->rows_of(x, scored.rows);
  log_probs.resize(scored.rows.size());
  tape->log_sum.resize(scored.rows.size());
  parts_->head.log_probs(tape->scored_x.view(), scored.targets, temperature, log_probs, tape->log_sum);
  return tape;
}

void Policy::backward(std::unique_ptr<Tape> any_tape, std::span<const float> dlog_probs,
                      const std::vector<std::vector<float>>& balance) {
  const ModelContext& context = parts_->context;
  auto* const tape = static_cast<KeptTape*>(any_tape.get());
  Tensor dx = context.tensor(tape->packed.token_count(), shape().hidden);
  dx.zero();
  {
    const Tensor dscored = context.tensor(tape->scored_x.rows(), shape().hidden);
    parts_->head.backward(tape->scored_x.view(), tape->scored.targets, tape->temperature, tape->log_sum, dlog_probs,
                          dscored.view());
    context.ops.tokens.embed_backward(dscored.view(), tape->scored.rows,
                                      dx.view());  // back to where they came from
  }
  const RowPositions at{tape->packed.offsets, tape->positions};
  for (int index = shape().layers - 1; index >= 0; --index) {
    Layer& layer = parts_->layers[static_cast<std::size_t>(index)];
    LayerTape& kept = tape->layers[static_cast<std::size_t>(index)];
    std::span<const float> layer_balance;
    if (!balance.empty() && index >= shape().dense_layers) {
      layer_balance = balance[static_cast<std::size_t>(index - shape().dense_layers)];
    }
    layer.mlp.backward(dx.view(), kept.mlp, layer_balance);
    layer.attention.backward(dx.view(), at, kept.attention);
  }
  const Matrix dembedding = parts_->parameters.gradient(parts_->parameters.find("embedding"));
  context.ops.tokens.embed_backward(dx.view(), tape->packed.tokens, dembedding);
}

Tensor Policy::prefill(const PackedTokens& packed, std::span<const int> slots, KvCache& cache) {
  std::vector<std::int32_t> last_rows;
  for (std::size_t s = 0; s < slots.size(); ++s) {
    cache.set_length(slots[s], packed.offsets[s + 1] - packed.offsets[s]);
    last_rows.push_back(packed.offsets[s + 1] - 1);
  }
  const auto positions = positions_of(packed);
  const Tensor x = parts_->run_layers(
      packed, positions,
      [&](const AttentionBlock& attention, const AttentionTape& tape) {
        attention.fill_cache(tape, packed.offsets, slots, cache);
      },
      [](LayerTape) {});
  return parts_->head.logits(parts_->rows_of(x, last_rows).view());
}

Tensor Policy::decode(std::span<const std::int32_t> tokens, std::span<const int> slots, KvCache& cache) {
  std::vector<std::int32_t> positions;
  for (const int slot : slots) {
    positions.push_back(cache.length(slot));
    cache.set_length(slot, cache.length(slot) + 1);
  }
  Tensor x = parts_->embed(tokens);
  for (int index = 0; index < shape().layers; ++index) {
    Layer& layer = parts_->layers[static_cast<std::size_t>(index)];
    layer.attention.decode(x, positions, slots, cache);
    MlpTape tape;
    layer.mlp.forward(x, tape, parts_->load_of(index));
  }
  return parts_->head.logits(x.view());
}

std::vector<std::vector<std::int64_t>> Policy::take_router_load() {
  auto taken = parts_->load;
  for (auto& layer : parts_->load) std::fill(layer.begin(), layer.end(), 0);
  return taken;
}

}  // namespace mrb
