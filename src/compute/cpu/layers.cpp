#include <algorithm>
#include <cmath>

#include "compute/cpu/cpu_operations.hpp"
#include "compute/cpu/parallel.hpp"
#include "compute/cpu/vector_exp.hpp"

namespace mrb {

namespace {

constexpr std::int64_t kRowGrain = 16;     // fewer rows are not worth waking threads for
constexpr std::int64_t kColumnChunk = 64;  // of a gain's gradient, per thread at a time

float sigmoid(float x) {
  return 1.0f / (1.0f + vector_exp(-x));
}

}  // namespace

void CpuLayers::rms_norm(ConstMatrix x, const float* gain, double eps, Matrix y, float* inverse_rms) {
  const std::int64_t width = x.columns;
  parallel_for(x.rows, kRowGrain, [&](std::int64_t t) {
    const float* in = x.row(t);
    float* out = y.row(t);
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t i = 0; i < width; ++i) squares += in[i] * in[i];
    const float inverse = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(width) + eps));
    inverse_rms[t] = inverse;
    for (std::int64_t i = 0; i < width; ++i) out[i] = in[i] * inverse * gain[i];
  });
}

// With y_i = x_i r g_i and r = (mean x^2 + eps)^-1/2:  dx_i = r g_i dy_i - x_i r^3 / width * sum_j dy_j g_j x_j.
void CpuLayers::rms_norm_backward(ConstMatrix dy, ConstMatrix x, const float* gain, const float* inverse_rms, Matrix dx,
                                  Store store, float* dgain) {
  const std::int64_t width = x.columns;
  parallel_for(x.rows, kRowGrain, [&](std::int64_t t) {
    const float* in = x.row(t);
    const float* d = dy.row(t);
    float* out = dx.row(t);
    const float r = inverse_rms[t];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < width; ++i) dot += d[i] * gain[i] * in[i];
    const float pull = r * r * r * dot / static_cast<float>(width);
    if (store == Store::add) {
      for (std::int64_t i = 0; i < width; ++i) out[i] += r * gain[i] * d[i] - in[i] * pull;
    } else {
      for (std::int64_t i = 0; i < width; ++i) out[i] = r * gain[i] * d[i] - in[i] * pull;
    }
  });
  const std::int64_t chunks = (width + kColumnChunk - 1) / kColumnChunk;
  parallel_for(chunks, 1, [&](std::int64_t chunk) {
    const std::int64_t first = chunk * kColumnChunk;
    const std::int64_t count = std::min(kColumnChunk, width - first);
    float sums[kColumnChunk] = {};
    for (std::int64_t t = 0; t < x.rows; ++t) {
      const float* in = x.row(t) + first;
      const float* d = dy.row(t) + first;
      const float r = inverse_rms[t];
      for (std::int64_t i = 0; i < count; ++i) sums[i] += d[i] * in[i] * r;
    }
    for (std::int64_t i = 0; i < count; ++i) dgain[first + i] += sums[i];
  });
}

void CpuLayers::swiglu(ConstMatrix gate_up, const float* scale, Matrix y) {
  const std::int64_t width = y.columns;
  parallel_for(y.rows, kRowGrain, [&](std::int64_t n) {
    const float* gate = gate_up.row(n);
    const float* up = gate + width;
    float* out = y.row(n);
    const float factor = scale ? scale[n] : 1.0f;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) out[i] = gate[i] * sigmoid(gate[i]) * up[i] * factor;
  });
}

// With s = sigmoid(g): d silu(g) / dg = s (1 + g (1 - s)).
void CpuLayers::swiglu_backward(ConstMatrix dy, ConstMatrix gate_up, const float* scale, Matrix dgate_up,
                                float* dscale) {
  const std::int64_t width = dy.columns;
  parallel_for(dy.rows, kRowGrain, [&](std::int64_t n) {
    const float* d = dy.row(n);
    const float* gate = gate_up.row(n);
    const float* up = gate + width;
    float* dgate = dgate_up.row(n);
    float* dup = dgate + width;
    const float factor = scale ? scale[n] : 1.0f;
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t i = 0; i < width; ++i) {
      const float s = sigmoid(gate[i]);
      const float silu = gate[i] * s;
      dot += d[i] * silu * up[i];
      dgate[i] = d[i] * factor * up[i] * s * (1.0f + gate[i] * (1.0f - s));
      dup[i] = d[i] * factor * silu;
    }
    if (scale) dscale[n] = dot;
  });
}

void CpuLayers::add(ConstMatrix x, Matrix y) {
  parallel_for(x.rows, kRowGrain, [&](std::int64_t t) {
    const float* in = x.row(t);
    float* out = y.row(t);
    for (std::int64_t i = 0; i < x.columns; ++i) out[i] += in[i];
  });
}

}  // namespace mrb
