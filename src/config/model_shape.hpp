// The shapes of Mixture-of-Experts models, those published and two small ones that run on a laptop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mrb {

// Shape of a decoder. Matrices are named as in the Qwen3 and DeepSeek-V3 releases. The defaults are the preset
// `tiny`.
struct ModelShape {
  std::string name = "tiny";
  int layers = 2;
  int dense_layers = 0;  // how many of them, the first ones, have no experts
  int hidden = 128;
  // gqa: grouped queries; mla: multi-head latent; lightning: linear in all layers but some. Only gqa can be run.
  std::string attention = "gqa";
  int heads = 4;
  int kv_heads = 2;   // gqa only
  int head_dim = 32;  // gqa only
  int experts = 8;
  int top_k = 2;
  int expert_ff = 128;  // inner width of each expert
  int shared_ff = 0;    // inner width of the expert that every token visits; 0: none
  int dense_ff = 0;     // inner width of the dense layers
  int vocab = 64;
  bool tied_head = false;  // the head is the transposed embedding
  double rope_theta = 10000;
  double norm_eps = 1e-6;
  // mla only: ranks of the two low-rank projections and the widths of the three parts of a head.
  int query_rank = 0;
  int kv_rank = 0;
  int nope_dim = 0;
  int rope_dim = 0;
  int value_dim = 0;
  // lightning only: how many layers have softmax attention; the others keep a state of heads x head_dim x head_dim.
  int softmax_layers = 0;
};

// Weights of the model, counted as published tables do: norms and biases left out.
struct ParameterCount {
  std::int64_t total = 0;
  std::int64_t embedding = 0;  // input embedding
  std::int64_t head = 0;       // 0 when tied
  std::int64_t active = 0;     // touched by one token, embedding and head included
  std::int64_t experts = 0;    // all routed experts
};

ParameterCount count_parameters(const ModelShape&);

// Bytes of keys and values that one token leaves in the cache, over all layers, at `bytes_per_element`.
std::int64_t kv_bytes_per_token(const ModelShape&, int bytes_per_element);

struct ModelPreset {
  ModelShape shape;
  double published_total_billion = 0;  // 0: our own, nothing is published
  double published_active_billion = 0;
};

const std::vector<ModelPreset>& model_presets();

// The preset called `name`, or nothing.
std::optional<ModelShape> find_model_preset(std::string_view name);

}  // namespace mrb
