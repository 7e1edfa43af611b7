#include <algorithm>
#include <cmath>

#include "compute/cpu/cpu_operations.hpp"
#include "compute/cpu/parallel.hpp"

namespace mrb {

namespace {

constexpr std::int64_t kChunk = 16384;  // elements a thread takes at a time; also the order of sums

std::int64_t chunk_count(std::size_t elements) {
  return (static_cast<std::int64_t>(elements) + kChunk - 1) / kChunk;
}

}  // namespace

void CpuOptimizer::adamw(const AdamWStep& step, std::span<float> weights, std::span<const float> gradients,
                         std::span<float> first_moments, std::span<float> second_moments) {
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  const auto keep = static_cast<float>(1 - step.learning_rate * step.weight_decay);
  const auto rate = static_cast<float>(step.learning_rate / correction1);
  const auto root = static_cast<float>(1 / std::sqrt(correction2));
  const auto beta1 = static_cast<float>(step.beta1), beta2 = static_cast<float>(step.beta2);
  const auto eps = static_cast<float>(step.eps), scale = static_cast<float>(step.gradient_scale);
  parallel_for(chunk_count(weights.size()), 1, [&](std::int64_t chunk) {
    const auto first = static_cast<std::size_t>(chunk * kChunk);
    const std::size_t end = std::min(weights.size(), first + kChunk);
#pragma omp simd
    for (std::size_t i = first; i < end; ++i) {
      const float g = gradients[i] * scale;
      const float m = first_moments[i] = beta1 * first_moments[i] + (1 - beta1) * g;
      const float v = second_moments[i] = beta2 * second_moments[i] + (1 - beta2) * g * g;
      weights[i] = weights[i] * keep - rate * m / (std::sqrt(v) * root + eps);
    }
  });
}

double CpuOptimizer::sum_of_squares(std::span<const float> values) {
  double total = 0;
  for (std::int64_t chunk = 0; chunk < chunk_count(values.size()); ++chunk) {
    const auto first = static_cast<std::size_t>(chunk * kChunk);
    const std::size_t end = std::min(values.size(), first + kChunk);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = first; i < end; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    total += sum;
  }
  return total;
}

}  // namespace mrb
