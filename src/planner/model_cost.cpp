#include "planner/model_cost.hpp"

#include <algorithm>
#include <cmath>

namespace mrb {

double attention_flop(const ModelShape& s, double context, AttentionForm form) {
  double layers = s.layers, width = 2.0 * s.head_dim, state = 0;
  if (s.attention == "mla") {
    width = form == AttentionForm::whole ? s.nope_dim + s.rope_dim + s.value_dim : 2.0 * s.kv_rank + s.rope_dim;
  } else if (s.attention == "lightning") {
    layers = s.softmax_layers;
    // A linear layer adds k v^T to its state and multiplies q with it, however long the context.
    state = 4.0 * (s.layers - s.softmax_layers) * s.heads * s.head_dim * s.head_dim;
  }
  return 2 * layers * s.heads * width * context + state;
}

double forward_flop(const ModelShape& shape, double context) {
  const ParameterCount count = count_parameters(shape);
  return 2.0 * static_cast<double>(count.active - count.embedding) +
         attention_flop(shape, context, AttentionForm::whole);
}

double touched_experts_ratio(const ModelShape& shape, double tokens) {
  return 1 - std::pow(1 - static_cast<double>(shape.top_k) / shape.experts, tokens);
}

DecodeCost decode_cost(const ModelShape& shape, const DecodeRate& rate) {
  const ParameterCount count = count_parameters(shape);
  const double bytes = rate.weight_bytes_per_weight;
  return {.dense_bytes = bytes * static_cast<double>(count.total - count.experts - count.embedding),
          .expert_bytes = bytes * static_cast<double>(count.experts),
          .kv_bytes = static_cast<double>(kv_bytes_per_token(shape, 1)) * rate.kv_bytes_per_element,
          .flop_per_token = 2.0 * static_cast<double>(count.active - count.embedding),
          .miss_ratio = 1 - static_cast<double>(shape.top_k) / shape.experts,
          .read_byte_per_s = rate.read_byte_per_s,
          .flop_per_s = rate.flop_per_s,
          .fixed_s = rate.fixed_s};
}

double DecodeCost::step_s(double sequences, double context) const {
  const double touched = 1 - std::pow(miss_ratio, sequences);
  const double read = dense_bytes + expert_bytes * touched + sequences * context * kv_bytes;
  return std::max(read / read_byte_per_s, flop_per_token * sequences / flop_per_s) + fixed_s;
}

}  // namespace mrb
