#include <algorithm>
#include <cmath>
#include <vector>

#include "compute/cpu/cpu_operations.hpp"
#include "compute/cpu/parallel.hpp"
#include "compute/cpu/vector_exp.hpp"

namespace mrb {

namespace {

constexpr std::int64_t kRowGrain = 8;

// log of the sum of exp(logits * scale).
double log_sum_exp(std::span<const float> logits, float scale) {
  float largest = logits[0];
#pragma omp simd reduction(max : largest)
  for (std::size_t v = 0; v < logits.size(); ++v) largest = std::max(largest, logits[v]);
  const float shift = largest * scale;
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t v = 0; v < logits.size(); ++v) sum += static_cast<double>(vector_exp(logits[v] * scale - shift));
  return static_cast<double>(shift) + std::log(sum);
}

// The same without one of the logits.
double log_sum_exp_without(std::span<const float> logits, float scale, std::int32_t excluded) {
  const auto before = logits.first(static_cast<std::size_t>(excluded));
  const auto after = logits.subspan(before.size() + 1);
  if (before.empty()) return log_sum_exp(after, scale);
  if (after.empty()) return log_sum_exp(before, scale);
  const double a = log_sum_exp(before, scale), b = log_sum_exp(after, scale);
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

std::span<const float> row_of(ConstMatrix m, std::int64_t t) {
  return {m.row(t), static_cast<std::size_t>(m.columns)};
}

}  // namespace

void CpuTokens::embed(ConstMatrix table, std::span<const std::int32_t> ids, Matrix y) {
  parallel_for(y.rows, 64,
               [&](std::int64_t t) { std::copy_n(table.row(ids[static_cast<std::size_t>(t)]), y.columns, y.row(t)); });
}

// One thread: two tokens may be the same.
void CpuTokens::embed_backward(ConstMatrix dy, std::span<const std::int32_t> ids, Matrix dtable) {
  for (std::int64_t t = 0; t < dy.rows; ++t) {
    const float* in = dy.row(t);
    float* out = dtable.row(ids[static_cast<std::size_t>(t)]);
    for (std::int64_t i = 0; i < dy.columns; ++i) out[i] += in[i];
  }
}

void CpuTokens::log_prob(ConstMatrix logits, double temperature, std::span<const std::int32_t> targets,
                         std::span<float> log_probs, std::span<float> log_sum) {
  const auto scale = static_cast<float>(1.0 / temperature);
  parallel_for(logits.rows, kRowGrain, [&](std::int64_t t) {
    const auto i = static_cast<std::size_t>(t);
    const double sum = log_sum_exp(row_of(logits, t), scale);
    log_sum[i] = static_cast<float>(sum);
    log_probs[i] = static_cast<float>(static_cast<double>(logits.row(t)[targets[i]] * scale) - sum);
  });
}

// d log p(target) / d logit_v = ([v = target] - p_v) / temperature.
void CpuTokens::log_prob_backward(Matrix logits, double temperature, std::span<const std::int32_t> targets,
                                  std::span<const float> log_sum, std::span<const float> dlog_probs) {
  const auto scale = static_cast<float>(1.0 / temperature);
  parallel_for(logits.rows, kRowGrain, [&](std::int64_t t) {
    const auto i = static_cast<std::size_t>(t);
    float* row = logits.row(t);
    const float factor = dlog_probs[i] * scale;
    const float shift = log_sum[i];
#pragma omp simd
    for (std::int64_t v = 0; v < logits.columns; ++v) row[v] = -factor * vector_exp(row[v] * scale - shift);
    row[targets[i]] += factor;
  });
}

void CpuTokens::sample(ConstMatrix logits, double temperature, std::int32_t excluded, std::span<const double> uniforms,
                       std::span<std::int32_t> ids, std::span<float> log_probs) {
  const auto scale = static_cast<float>(1.0 / temperature);
  parallel_for(logits.rows, kRowGrain, [&](std::int64_t t) {
    const auto i = static_cast<std::size_t>(t);
    const auto row = row_of(logits, t);
    const double log_sum = log_sum_exp(row, scale);
    // Over the tokens that may be drawn, so that it holds also where the excluded one has nearly all probability.
    const double drawable_sum = excluded == kNoToken ? log_sum : log_sum_exp_without(row, scale, excluded);
    const auto probability = [&](std::size_t v) {
      return std::exp(static_cast<double>(row[v] * scale) - drawable_sum);
    };
    // The probabilities add up to 1 but for rounding, so the last possible token takes what is left.
    double cumulative = 0;
    std::size_t drawn = 0;
    for (std::size_t v = 0; v < row.size(); ++v) {
      if (static_cast<std::int32_t>(v) == excluded) continue;
      const double p = probability(v);
      if (p == 0) continue;
      drawn = v;
      cumulative += p;
      if (cumulative > uniforms[i]) break;
    }
    ids[i] = static_cast<std::int32_t>(drawn);
    log_probs[i] = static_cast<float>(static_cast<double>(row[drawn] * scale) - log_sum);
  });
}

}  // namespace mrb
