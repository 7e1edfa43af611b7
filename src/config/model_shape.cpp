#include "config/model_shape.hpp"

#include <algorithm>

namespace mrb {

namespace {

std::int64_t wide(int value) {
  return value;
}

// Weights of the attention of all layers.
std::int64_t attention_weights(const ModelShape& s) {
  const std::int64_t hidden = s.hidden, q_width = wide(s.heads) * s.head_dim, kv_width = wide(s.kv_heads) * s.head_dim;
  const std::int64_t grouped = 2 * hidden * q_width + 2 * hidden * kv_width;  // q, output; k, v
  if (s.attention == "mla") {
    const std::int64_t query = hidden * s.query_rank + wide(s.query_rank) * s.heads * (s.nope_dim + s.rope_dim);
    const std::int64_t key_value =
        hidden * (s.kv_rank + s.rope_dim) + wide(s.kv_rank) * s.heads * (s.nope_dim + s.value_dim);
    return s.layers * (query + key_value + wide(s.heads) * s.value_dim * hidden);
  }
  if (s.attention == "lightning") {
    const std::int64_t linear = 5 * hidden * q_width;  // q, k, v, output gate, output
    return s.softmax_layers * grouped + (s.layers - s.softmax_layers) * linear;
  }
  return s.layers * grouped;
}

constexpr std::int64_t mlp_weights(std::int64_t hidden, std::int64_t width) {
  return 3 * hidden * width;
}

ModelShape gqa(const char* name, int layers, int hidden, int heads, int kv_heads, int head_dim, int experts, int top_k,
               int expert_ff, int vocab) {
  ModelShape shape;
  shape.name = name;
  shape.layers = layers;
  shape.hidden = hidden;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_dim = head_dim;
  shape.experts = experts;
  shape.top_k = top_k;
  shape.expert_ff = expert_ff;
  shape.vocab = vocab;
  return shape;
}

ModelShape with_dense(ModelShape shape, int dense_layers, int dense_ff, int shared_ff) {
  shape.dense_layers = dense_layers;
  shape.dense_ff = dense_ff;
  shape.shared_ff = shared_ff;
  return shape;
}

// DeepSeek-V3 and its kin: ranks 1536 and 512, heads of 128 + 64, values of 128.
ModelShape mla(ModelShape shape) {
  shape.attention = "mla";
  shape.kv_heads = shape.heads;
  shape.query_rank = 1536;
  shape.kv_rank = 512;
  shape.nope_dim = 128;
  shape.rope_dim = 64;
  shape.value_dim = 128;
  return shape;
}

ModelShape lightning(ModelShape shape, int softmax_layers) {
  shape.attention = "lightning";
  shape.softmax_layers = softmax_layers;
  return shape;
}

std::vector<ModelPreset> make_presets() {
  return {
      {ModelShape{}, 0, 0},  // tiny
      {gqa("small", 4, 384, 6, 2, 64, 16, 4, 384, 2048), 0, 0},
      {gqa("qwen3-30b-a3b", 48, 2048, 32, 4, 128, 128, 8, 768, 151936), 30.5, 3.3},
      {gqa("qwen3-235b-a22b", 94, 4096, 64, 4, 128, 128, 8, 1536, 151936), 235, 22},
      {with_dense(mla(gqa("deepseek-v3", 61, 7168, 128, 128, 128, 256, 8, 2048, 129280)), 3, 18432, 2048), 671, 37},
      {with_dense(mla(gqa("kimi-k2", 61, 7168, 64, 64, 128, 384, 8, 2048, 163840)), 1, 18432, 2048), 1040, 32.6},
      // Every other layer looks back 128 tokens only; here all look back to the start, an upper bound.
      {gqa("gpt-oss-120b", 36, 2880, 64, 8, 64, 128, 4, 2880, 201088), 116.8, 5.1},
      {gqa("mixtral-8x7b", 32, 4096, 32, 8, 128, 8, 2, 14336, 32000), 46.7, 12.9},
      {with_dense(gqa("glm-4.5", 92, 5120, 96, 8, 128, 160, 8, 1536, 151552), 3, 12288, 1536), 355, 32},
      {with_dense(gqa("glm-4.5-air", 46, 4096, 96, 8, 128, 128, 8, 1408, 151552), 1, 10944, 1408), 106, 12},
      {lightning(gqa("minimax-m1", 80, 6144, 64, 8, 128, 32, 2, 9216, 200064), 10), 456, 45.9},
      {gqa("minimax-m2", 62, 3072, 48, 8, 128, 256, 8, 1536, 200064), 230, 10},
  };
}

}  // namespace

ParameterCount count_parameters(const ModelShape& s) {
  const std::int64_t moe_layers = s.layers - s.dense_layers;
  const std::int64_t expert = mlp_weights(s.hidden, s.expert_ff);
  ParameterCount count;
  count.embedding = wide(s.vocab) * s.hidden;
  count.head = s.tied_head ? 0 : count.embedding;
  count.experts = moe_layers * s.experts * expert;
  const std::int64_t everything_else = count.embedding + count.head + attention_weights(s) +
                                       moe_layers * (wide(s.experts) * s.hidden + mlp_weights(s.hidden, s.shared_ff)) +
                                       s.dense_layers * mlp_weights(s.hidden, s.dense_ff);
  count.total = everything_else + count.experts;
  count.active = everything_else + moe_layers * s.top_k * expert;
  return count;
}

std::int64_t kv_bytes_per_token(const ModelShape& s, int bytes_per_element) {
  if (s.attention == "mla") return wide(s.layers) * (s.kv_rank + s.rope_dim) * bytes_per_element;
  const int layers = s.attention == "lightning" ? s.softmax_layers : s.layers;
  return wide(layers) * 2 * s.kv_heads * s.head_dim * bytes_per_element;
}

const std::vector<ModelPreset>& model_presets() {
  static const std::vector<ModelPreset> presets = make_presets();
  return presets;
}

std::optional<ModelShape> find_model_preset(std::string_view name) {
  const auto& presets = model_presets();
  const auto found = std::find_if(presets.begin(), presets.end(),
                                  [&](const ModelPreset& preset) { return preset.shape.name == name; });
  if (found == presets.end()) return std::nullopt;
  return found->shape;
}

}  // namespace mrb
