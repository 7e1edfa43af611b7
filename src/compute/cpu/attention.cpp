#include <algorithm>
#include <cmath>
#include <vector>

#include "compute/cpu/cpu_operations.hpp"
#include "compute/cpu/onednn.hpp"
#include "compute/cpu/parallel.hpp"
#include "compute/cpu/vector_exp.hpp"

namespace mrb {

namespace {

// Queries are taken in blocks, so that their scores against all earlier keys stay in the cache.
constexpr std::int64_t kQueriesAtOnce = 64;

// The queries, keys and values of one head within one sequence, as strided pieces of the fused rows.
struct HeadPieces {
  std::int64_t q_offset = 0;  // from the start of a row
  std::int64_t k_offset = 0;
  std::int64_t v_offset = 0;

  HeadPieces(HeadShape shape, std::int64_t head) {
    const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
    q_offset = head * shape.head_dim;
    k_offset = shape.q_width() + kv_head * shape.head_dim;
    v_offset = shape.q_width() + shape.kv_width() + kv_head * shape.head_dim;
  }
};

float scale_of(HeadShape shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
}

float dot(const float* a, const float* b, std::int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Turns scores into exp(score - largest), and returns {largest, sum}.
struct RowSoftmax {
  float largest = 0;
  float sum = 0;
};
RowSoftmax exponentiate(float* scores, std::int64_t count) {
  RowSoftmax row{scores[0], 0};
  for (std::int64_t i = 1; i < count; ++i) row.largest = std::max(row.largest, scores[i]);
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    scores[i] = vector_exp(scores[i] - row.largest);
    sum += scores[i];
  }
  row.sum = sum;
  return row;
}

// scores[queries][keys] = scale * Q K^T for queries [first, first + queries) and keys [0, keys) of a sequence.
void score(const float* rows, std::int64_t width, const HeadPieces& head, HeadShape shape, std::int64_t first,
           std::int64_t queries, std::int64_t keys, float* scores) {
  multiply({.m = queries,
            .n = keys,
            .k = shape.head_dim,
            .a = {rows + first * width + head.q_offset, width},
            .b = {rows + head.k_offset, width, Transposed::yes},
            .c = scores,
            .c_stride = keys,
            .factor = scale_of(shape)});
}

// Calls work(sequence's first row, its rows, index) for every sequence and every one of `per_sequence` parts.
template <class Work>
void for_each_part(std::span<const std::int32_t> offsets, std::int64_t per_sequence, const Work& work) {
  const auto sequences = static_cast<std::int64_t>(offsets.size()) - 1;
  parallel_for(sequences * per_sequence, 1, [&](std::int64_t i) {
    const auto s = static_cast<std::size_t>(i / per_sequence);
    work(std::int64_t{offsets[s]}, std::int64_t{offsets[s + 1] - offsets[s]}, i % per_sequence);
  });
}

}  // namespace

void CpuAttention::rotate(Matrix qkv, std::span<const std::int32_t> positions, HeadShape shape, double theta,
                          Rotation rotation) {
  const std::int64_t half = shape.head_dim / 2;
  std::vector<double> frequencies(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    frequencies[static_cast<std::size_t>(i)] = std::pow(theta, -2.0 * static_cast<double>(i) / shape.head_dim);
  }
  parallel_for(qkv.rows, 16, [&](std::int64_t t) {
    std::vector<float> cosines(static_cast<std::size_t>(half)), sines(static_cast<std::size_t>(half));
    for (std::size_t i = 0; i < cosines.size(); ++i) {
      const double angle = positions[static_cast<std::size_t>(t)] * frequencies[i];
      cosines[i] = static_cast<float>(std::cos(angle));
      sines[i] = static_cast<float>(rotation == Rotation::forward ? std::sin(angle) : -std::sin(angle));
    }
    for (std::int64_t head = 0; head < shape.heads + shape.kv_heads; ++head) {  // queries, then keys
      float* real = qkv.row(t) + head * shape.head_dim;
      float* imaginary = real + half;
      for (std::int64_t i = 0; i < half; ++i) {
        const float c = cosines[static_cast<std::size_t>(i)], s = sines[static_cast<std::size_t>(i)];
        const float r = real[i];
        real[i] = r * c - imaginary[i] * s;
        imaginary[i] = imaginary[i] * c + r * s;
      }
    }
  });
}

void CpuAttention::attend(ConstMatrix qkv, std::span<const std::int32_t> offsets, HeadShape shape, Matrix out,
                          float* log_sum) {
  const std::int64_t width = qkv.columns;
  for_each_part(offsets, shape.heads, [&](std::int64_t begin, std::int64_t tokens, std::int64_t h) {
    const HeadPieces head(shape, h);
    const float* rows = qkv.row(begin);
    std::vector<float> scores(static_cast<std::size_t>(std::min(tokens, kQueriesAtOnce) * tokens));
    for (std::int64_t first = 0; first < tokens; first += kQueriesAtOnce) {
      const std::int64_t queries = std::min(kQueriesAtOnce, tokens - first);
      const std::int64_t keys = first + queries;
      score(rows, width, head, shape, first, queries, keys, scores.data());
      for (std::int64_t q = 0; q < queries; ++q) {
        float* row = scores.data() + q * keys;
        const std::int64_t seen = first + q + 1;
        const RowSoftmax softmax = exponentiate(row, seen);
        for (std::int64_t i = 0; i < seen; ++i) row[i] /= softmax.sum;
        std::fill(row + seen, row + keys, 0.0f);
        log_sum[h * qkv.rows + begin + first + q] = softmax.largest + std::log(softmax.sum);
      }
      multiply({.m = queries,
                .n = shape.head_dim,
                .k = keys,
                .a = {scores.data(), keys},
                .b = {rows + head.v_offset, width},
                .c = out.row(begin + first) + h * shape.head_dim,
                .c_stride = out.columns});
    }
  });
}

// With P = softmax(scale Q K^T), O = P V and D_i = dO_i . O_i:  dV = P^T dO,  dS = P (dO V^T - D),
// dQ = scale dS K,  dK = scale dS^T Q. (Dao et al.: FlashAttention, appendix B.)
void CpuAttention::attend_backward(ConstMatrix dout, ConstMatrix qkv, ConstMatrix out, const float* log_sum,
                                   std::span<const std::int32_t> offsets, HeadShape shape, Matrix dqkv) {
  const std::int64_t width = qkv.columns, out_width = out.columns, dim = shape.head_dim;
  const std::int64_t heads_per_kv = shape.heads / shape.kv_heads;
  const float scale = scale_of(shape);
  // Heads that share keys and values add to the same gradients, so one thread takes them all.
  for_each_part(offsets, shape.kv_heads, [&](std::int64_t begin, std::int64_t tokens, std::int64_t kv_head) {
    const std::int64_t block = std::min(tokens, kQueriesAtOnce);
    std::vector<float> probabilities(static_cast<std::size_t>(block * tokens)), dscores(probabilities.size());
    const float* rows = qkv.row(begin);
    float* drows = dqkv.row(begin);
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::fill_n(drows + t * width + shape.q_width() + kv_head * dim, dim, 0.0f);
      std::fill_n(drows + t * width + shape.q_width() + shape.kv_width() + kv_head * dim, dim, 0.0f);
    }
    for (std::int64_t h = kv_head * heads_per_kv; h < (kv_head + 1) * heads_per_kv; ++h) {
      const HeadPieces head(shape, h);
      for (std::int64_t first = 0; first < tokens; first += kQueriesAtOnce) {
        const std::int64_t queries = std::min(kQueriesAtOnce, tokens - first);
        const std::int64_t keys = first + queries;
        const float* o = out.row(begin + first) + h * dim;
        const float* d_o = dout.row(begin + first) + h * dim;
        score(rows, width, head, shape, first, queries, keys, probabilities.data());
        multiply({.m = queries,
                  .n = keys,
                  .k = dim,
                  .a = {d_o, out_width},
                  .b = {rows + head.v_offset, width, Transposed::yes},
                  .c = dscores.data(),
                  .c_stride = keys});
        for (std::int64_t q = 0; q < queries; ++q) {
          float* p = probabilities.data() + q * keys;
          float* ds = dscores.data() + q * keys;
          const std::int64_t seen = first + q + 1;
          const float shift = log_sum[h * qkv.rows + begin + first + q];
          const float d = dot(d_o + q * out_width, o + q * out_width, dim);
#pragma omp simd
          for (std::int64_t i = 0; i < seen; ++i) {
            p[i] = vector_exp(p[i] - shift);
            ds[i] = p[i] * (ds[i] - d) * scale;
          }
          std::fill(p + seen, p + keys, 0.0f);
          std::fill(ds + seen, ds + keys, 0.0f);
        }
        multiply({.m = queries,
                  .n = dim,
                  .k = keys,
                  .a = {dscores.data(), keys},
                  .b = {rows + head.k_offset, width},
                  .c = drows + first * width + head.q_offset,
                  .c_stride = width});
        multiply({.m = keys,
                  .n = dim,
                  .k = queries,
                  .a = {dscores.data(), keys, Transposed::yes},
                  .b = {rows + first * width + head.q_offset, width},
                  .c = drows + head.k_offset,
                  .c_stride = width,
                  .store = Store::add});
        multiply({.m = keys,
                  .n = dim,
                  .k = queries,
                  .a = {probabilities.data(), keys, Transposed::yes},
                  .b = {d_o, out_width},
                  .c = drows + head.v_offset,
                  .c_stride = width,
                  .store = Store::add});
      }
    }
  });
}

void CpuAttention::decode(ConstMatrix qkv, std::span<const CacheSlot> slots, HeadShape shape, Matrix out) {
  const std::int64_t dim = shape.head_dim, kv_width = shape.kv_width();
  const float scale = scale_of(shape);
  parallel_for(static_cast<std::int64_t>(slots.size()), 4, [&](std::int64_t i) {
    const CacheSlot& slot = slots[static_cast<std::size_t>(i)];
    const float* row = qkv.row(i);
    const std::int64_t last = slot.tokens - 1;
    std::copy_n(row + shape.q_width(), kv_width, slot.keys + last * kv_width);
    std::copy_n(row + shape.q_width() + kv_width, kv_width, slot.values + last * kv_width);
    std::vector<float> scores(static_cast<std::size_t>(slot.tokens));
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const std::int64_t kv_offset = h / (shape.heads / shape.kv_heads) * dim;
      for (std::int64_t t = 0; t < slot.tokens; ++t) {
        scores[static_cast<std::size_t>(t)] = scale * dot(row + h * dim, slot.keys + t * kv_width + kv_offset, dim);
      }
      const RowSoftmax softmax = exponentiate(scores.data(), slot.tokens);
      float* result = out.row(i) + h * dim;
      std::fill_n(result, dim, 0.0f);
      for (std::int64_t t = 0; t < slot.tokens; ++t) {
        const float p = scores[static_cast<std::size_t>(t)] / softmax.sum;
        const float* value = slot.values + t * kv_width + kv_offset;
        for (std::int64_t d = 0; d < dim; ++d) result[d] += p * value[d];
      }
    }
  });
}

}  // namespace mrb
