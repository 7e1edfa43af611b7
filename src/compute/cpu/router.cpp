#include <algorithm>
#include <cmath>
#include <limits>

#include "compute/cpu/cpu_operations.hpp"
#include "compute/cpu/parallel.hpp"

namespace mrb {

namespace {

constexpr std::int64_t kRowGrain = 64;

// The index of the largest of `values` that is not among the `taken` first of `chosen`; the lowest among equals.
std::int32_t largest_left(std::span<const float> values, const std::int32_t* chosen, int taken) {
  std::int32_t best = -1;
  float best_value = -std::numeric_limits<float>::infinity();
  for (std::size_t e = 0; e < values.size(); ++e) {
    const auto index = static_cast<std::int32_t>(e);
    if (values[e] > best_value && std::find(chosen, chosen + taken, index) == chosen + taken) {
      best = index;
      best_value = values[e];
    }
  }
  return best;
}

}  // namespace

void CpuRouter::route(ConstMatrix logits, int top_k, Matrix probabilities, std::span<std::int32_t> expert_ids,
                      Matrix weights) {
  const auto experts = static_cast<std::size_t>(logits.columns);
  parallel_for(logits.rows, kRowGrain, [&](std::int64_t t) {
    const float* in = logits.row(t);
    float* p = probabilities.row(t);
    const float largest = *std::max_element(in, in + experts);
    float total = 0;
    for (std::size_t e = 0; e < experts; ++e) total += p[e] = std::exp(in[e] - largest);
    for (std::size_t e = 0; e < experts; ++e) p[e] /= total;
    std::int32_t* chosen = expert_ids.data() + t * top_k;
    float chosen_total = 0;
    for (int k = 0; k < top_k; ++k) {
      chosen[k] = largest_left({p, experts}, chosen, k);
      chosen_total += p[chosen[k]];
    }
    for (int k = 0; k < top_k; ++k) weights.row(t)[k] = p[chosen[k]] / chosen_total;
  });
}

// w_k = p_k / S with S = sum of the chosen p, so d/dp_k = (dw_k - sum_j dw_j w_j) / S; then the softmax's own
// dlogit_e = p_e (dp_e - sum_f p_f dp_f).
void CpuRouter::route_backward(ConstMatrix dweights, ConstMatrix probabilities,
                               std::span<const std::int32_t> expert_ids, ConstMatrix weights,
                               std::span<const float> balance, Matrix dlogits) {
  const std::int64_t experts = probabilities.columns;
  const std::int64_t top_k = weights.columns;
  parallel_for(probabilities.rows, kRowGrain, [&](std::int64_t t) {
    const float* p = probabilities.row(t);
    const float* dw = dweights.row(t);
    const float* w = weights.row(t);
    const std::int32_t* chosen = expert_ids.data() + t * top_k;
    float* d = dlogits.row(t);
    for (std::int64_t e = 0; e < experts; ++e) d[e] = balance.empty() ? 0.0f : balance[static_cast<std::size_t>(e)];
    float chosen_total = 0;
    float mean = 0;
    for (std::int64_t k = 0; k < top_k; ++k) {
      chosen_total += p[chosen[k]];
      mean += dw[k] * w[k];
    }
    for (std::int64_t k = 0; k < top_k; ++k) d[chosen[k]] += (dw[k] - mean) / chosen_total;
    float pull = 0;
    for (std::int64_t e = 0; e < experts; ++e) pull += p[e] * d[e];
    for (std::int64_t e = 0; e < experts; ++e) d[e] = p[e] * (d[e] - pull);
  });
}

}  // namespace mrb
