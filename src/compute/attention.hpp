// Rotary positions and causal grouped-query attention over packed sequences.
#pragma once

#include <cstdint>
#include <span>

#include "compute/matrix.hpp"

namespace mrb {

// Heads of one attention layer. Query head h reads key-value head h / (heads / kv_heads).
struct HeadShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;

  // A row of the fused projection: [q (heads * head_dim) | k (kv_heads * head_dim) | v (kv_heads * head_dim)].
  int q_width() const { return heads * head_dim; }
  int kv_width() const { return kv_heads * head_dim; }
  int row_width() const { return q_width() + 2 * kv_width(); }
};

// Keys and values of a sequence that is being generated, in one layer: [tokens_max][kv_width] each.
struct CacheSlot {
  float* keys = nullptr;
  float* values = nullptr;
  std::int64_t tokens = 0;  // filled so far, the row's own token included
};

enum class Rotation { forward, backward };

class AttentionOps {
 public:
  virtual ~AttentionOps() = default;

  // Turns q and k of qkv[t][row_width] in place by positions[t]; `backward` turns gradients the other way. The two
  // halves of a head are the real and the imaginary parts, as in the Llama and Qwen releases.
  virtual void rotate(Matrix qkv, std::span<const std::int32_t> positions, HeadShape, double theta, Rotation) = 0;

  // Causal attention within each sequence: rows offsets[s] to offsets[s + 1] of qkv are sequence s. out[t][q_width].
  // log_sum[heads][t] (the softmax's log-denominator) is kept for the way back. Scores are scaled by
  // 1 / sqrt(head_dim).
  virtual void attend(ConstMatrix qkv, std::span<const std::int32_t> offsets, HeadShape, Matrix out,
                      float* log_sum) = 0;

  // dqkv = d loss / d qkv (all of it is overwritten), before rotation.
  virtual void attend_backward(ConstMatrix dout, ConstMatrix qkv, ConstMatrix out, const float* log_sum,
                               std::span<const std::int32_t> offsets, HeadShape, Matrix dqkv) = 0;

  // One new token per sequence: row i of qkv attends to slot i, whose last row (tokens - 1) is written here from the
  // row's k and v first. `slots` is the host's.
  virtual void decode(ConstMatrix qkv, std::span<const CacheSlot> slots, HeadShape, Matrix out) = 0;
};

}  // namespace mrb
