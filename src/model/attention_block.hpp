// x += output(attention(rotate(qkv(norm(x))))).
#pragma once

#include <span>

#include "model/context.hpp"
#include "model/kv_cache.hpp"

namespace mrb {

// Where the rows of a batch stand in their sequences.
struct RowPositions {
  std::span<const std::int32_t> offsets;    // of the sequences; empty while decoding
  std::span<const std::int32_t> positions;  // by row
};

// What forward() keeps for backward().
struct AttentionTape {
  Tensor x;            // the block's input [T][hidden]
  Tensor inverse_rms;  // [1][T]
  Tensor qkv;          // after rotation [T][row width]
  Tensor log_sum;      // [heads][T]
  Tensor attended;     // [T][q width]
};

class AttentionBlock {
 public:
  AttentionBlock(const ModelContext&, int layer);

  std::size_t publish() { return qkv_.publish() + output_.publish(); }

  // x[T][hidden] is replaced by the block's output.
  void forward(Tensor& x, const RowPositions&, AttentionTape&) const;

  // dx[T][hidden]: from the gradient of the output to that of the input.
  void backward(Matrix dx, const RowPositions&, AttentionTape&) const;

  // Stores what forward() kept of keys and values: sequence s in slot slots[s], whose length is set by the caller.
  void fill_cache(const AttentionTape&, std::span<const std::int32_t> offsets, std::span<const int> slots,
                  KvCache&) const;

  // One token per slot; lengths in the cache include it already.
  void decode(Tensor& x, std::span<const std::int32_t> positions, std::span<const int> slots, KvCache&) const;

 private:
  Tensor project(const Tensor& x, std::span<const std::int32_t> positions, Tensor& inverse_rms) const;
  void add_output(const Tensor& attended, Tensor& x) const;

  const ModelContext& context_;
  int layer_;
  HeadShape heads_;
  Norm norm_;
  Linear qkv_;
  Linear output_;
};

}  // namespace mrb
