#include "model/attention_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace mrb {

namespace {

std::string prefix(int layer) {
  return fmt::format("layers.{}.attention", layer);
}

}  // namespace

AttentionBlock::AttentionBlock(const ModelContext& context, int layer)
    : context_(context),
      layer_(layer),
      heads_{context.shape.heads, context.shape.kv_heads, context.shape.head_dim},
      norm_(context, prefix(layer) + "_norm"),
      qkv_(context.linear(prefix(layer) + ".qkv")),
      output_(context.linear(prefix(layer) + ".output")) {}

Tensor AttentionBlock::project(const Tensor& x, std::span<const std::int32_t> positions, Tensor& inverse_rms) const {
  const Tensor normed = context_.tensor(x.rows(), context_.shape.hidden);
  norm_.forward(x.view(), normed.view(), inverse_rms);
  Tensor qkv = context_.tensor(x.rows(), heads_.row_width());
  const std::int64_t rows[] = {x.rows()};
  qkv_.forward(rows, normed.view(), qkv.view());
  context_.ops.attention.rotate(qkv.view(), positions, heads_, context_.shape.rope_theta, Rotation::forward);
  return qkv;
}

void AttentionBlock::add_output(const Tensor& attended, Tensor& x) const {
  const Tensor result = context_.tensor(x.rows(), context_.shape.hidden);
  const std::int64_t rows[] = {x.rows()};
  output_.forward(rows, attended.view(), result.view());
  context_.ops.layers.add(result.view(), x.view());
}

void AttentionBlock::forward(Tensor& x, const RowPositions& at, AttentionTape& tape) const {
  tape.x = context_.tensor(x.rows(), context_.shape.hidden);
  std::copy_n(x.data(), x.view().size(), tape.x.data());
  tape.qkv = project(x, at.positions, tape.inverse_rms);
  tape.attended = context_.tensor(x.rows(), heads_.q_width());
  tape.log_sum = context_.tensor(heads_.heads, x.rows());
  context_.ops.attention.attend(tape.qkv.view(), at.offsets, heads_, tape.attended.view(), tape.log_sum.data());
  add_output(tape.attended, x);
}

void AttentionBlock::backward(Matrix dx, const RowPositions& at, AttentionTape& tape) const {
  const std::int64_t rows[] = {dx.rows};
  Tensor dqkv = context_.tensor(dx.rows, heads_.row_width());
  {
    const Tensor dattended = context_.tensor(dx.rows, heads_.q_width());
    output_.backward(rows, dx, tape.attended.view(), dattended.view(), Store::replace);
    context_.ops.attention.attend_backward(dattended.view(), tape.qkv.view(), tape.attended.view(), tape.log_sum.data(),
                                           at.offsets, heads_, dqkv.view());
  }
  context_.ops.attention.rotate(dqkv.view(), at.positions, heads_, context_.shape.rope_theta, Rotation::backward);
  const Tensor normed = context_.tensor(dx.rows, context_.shape.hidden);
  norm_.forward(tape.x.view(), normed.view(), tape.inverse_rms);
  const Tensor dnormed = context_.tensor(dx.rows, context_.shape.hidden);
  qkv_.backward(rows, dqkv.view(), normed.view(), dnormed.view(), Store::replace);
  norm_.backward(dnormed.view(), tape.x.view(), tape.inverse_rms, dx, Store::add);
  tape = {};
}

void AttentionBlock::fill_cache(const AttentionTape& tape, std::span<const std::int32_t> offsets,
                                std::span<const int> slots, KvCache& cache) const {
  const std::int64_t kv_width = heads_.kv_width();
  for (std::size_t s = 0; s < slots.size(); ++s) {
    const CacheSlot slot = cache.at(layer_, slots[s]);
    for (std::int64_t t = offsets[s]; t < offsets[s + 1]; ++t) {
      const float* keys = tape.qkv.view().row(t) + heads_.q_width();
      std::copy_n(keys, kv_width, slot.keys + (t - offsets[s]) * kv_width);
      std::copy_n(keys + kv_width, kv_width, slot.values + (t - offsets[s]) * kv_width);
    }
  }
}

void AttentionBlock::decode(Tensor& x, std::span<const std::int32_t> positions, std::span<const int> slots,
                            KvCache& cache) const {
  Tensor inverse_rms;
  const Tensor qkv = project(x, positions, inverse_rms);
  std::vector<CacheSlot> pieces;
  for (const int slot : slots) pieces.push_back(cache.at(layer_, slot));
  const Tensor attended = context_.tensor(x.rows(), heads_.q_width());
  context_.ops.attention.decode(qkv.view(), pieces, heads_, attended.view());
  add_output(attended, x);
}

}  // namespace mrb
