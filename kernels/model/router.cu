// The router: softmax over the experts, the top_k of them, and their probabilities divided by their sum; and back.
//
// One warp per token. A probability and its expert make one key, larger for a larger probability and, among equals, for
// the lower expert; the next expert chosen is the largest key below the last one, so nothing has to be crossed out.
//
// Launch: 4 warps per block, a warp per token.
// Needs:  nothing of the shapes but top_k <= experts.
// Cost:   forward 2, backward 2 tokens * experts * 4 bytes; the top_k passes over a token's probabilities find them in the
//         cache. At 4096 tokens, 128 experts that is 4.2 MB, or 1 us at 4.8 TB/s (H200): the launch is what it costs.
// Checked against: src/compute/cpu/router.cpp.
#include "kernels/device.cuh"
#include "kernels/model/model_kernels.hpp"

namespace mrb::kernels {

namespace {

constexpr unsigned kRouteThreads = 128;

__device__ std::uint64_t key_of(float probability, int expert) {
  return std::uint64_t{__float_as_uint(probability)} << 32 | (0xffffffffu - static_cast<unsigned>(expert));
}

__global__ void __launch_bounds__(kRouteThreads) route_kernel(RouteArgs args) {
  const std::int64_t token = warp_index();
  if (token >= args.tokens) return;
  const float* logits = args.logits + token * args.experts;
  float* probabilities = args.probabilities + token * args.experts;
  float largest = -INFINITY;
  for (int expert = lane_index(); expert < args.experts; expert += kWarpSize) {
    largest = logits[expert] > largest ? logits[expert] : largest;
  }
  largest = max_of_lanes(largest);
  float total = 0;
  for (int expert = lane_index(); expert < args.experts; expert += kWarpSize) {
    total += probabilities[expert] = expf(logits[expert] - largest);
  }
  total = sum_of_lanes(total);
  for (int expert = lane_index(); expert < args.experts; expert += kWarpSize) probabilities[expert] /= total;

  // Each lane has only read what it wrote itself.
  std::uint64_t last = ~std::uint64_t{0};
  float chosen_total = 0;
  for (int k = 0; k < args.top_k; ++k) {
    std::uint64_t best = 0;
    for (int expert = lane_index(); expert < args.experts; expert += kWarpSize) {
      const std::uint64_t key = key_of(probabilities[expert], expert);
      if (key < last && key > best) best = key;
    }
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
      const std::uint64_t other = __shfl_xor_sync(kAllLanes, best, distance);
      best = other > best ? other : best;
    }
    last = best;
    const float probability = __uint_as_float(static_cast<unsigned>(best >> 32));
    chosen_total += probability;
    if (lane_index() != 0) continue;
    args.expert_ids[token * args.top_k + k] = static_cast<std::int32_t>(0xffffffffu - static_cast<unsigned>(best));
    args.weights[token * args.top_k + k] = probability;
  }
  if (lane_index() != 0) return;
  for (int k = 0; k < args.top_k; ++k) args.weights[token * args.top_k + k] /= chosen_total;
}

// w_k = p_k / S with S = sum of the chosen p, so d/dp_k = (dw_k - sum_j dw_j w_j) / S; then the softmax's own
// dlogit_e = p_e (dp_e - sum_f p_f dp_f).
__global__ void __launch_bounds__(kRouteThreads) route_backward_kernel(RouteBackwardArgs args) {
  const std::int64_t token = warp_index();
  if (token >= args.tokens) return;
  const float* p = args.probabilities + token * args.experts;
  const float* dw = args.dweights + token * args.top_k;
  const float* w = args.weights + token * args.top_k;
  const std::int32_t* chosen = args.expert_ids + token * args.top_k;
  float chosen_total = 0, mean = 0;
  for (int k = 0; k < args.top_k; ++k) {
    chosen_total += p[chosen[k]];
    mean += dw[k] * w[k];
  }
  const auto gradient = [&](int expert) {
    float d = args.balance == nullptr ? 0.0f : args.balance[expert];
    for (int k = 0; k < args.top_k; ++k) {
      if (chosen[k] == expert) d += (dw[k] - mean) / chosen_total;
    }
    return d;
  };
  float pull = 0;
  for (int expert = lane_index(); expert < args.experts; expert += kWarpSize) pull += p[expert] * gradient(expert);
  pull = sum_of_lanes(pull);
  for (int expert = lane_index(); expert < args.experts; expert += kWarpSize) {
    args.dlogits[token * args.experts + expert] = p[expert] * (gradient(expert) - pull);
  }
}

unsigned route_blocks(std::int32_t tokens) {
  constexpr int kWarps = static_cast<int>(kRouteThreads) / kWarpSize;
  return static_cast<unsigned>((tokens + kWarps - 1) / kWarps);
}

}  // namespace

void route(const RouteArgs& args, Stream stream) {
  require_range("route", "top_k", args.top_k, 1, args.experts);
  launch("route", route_kernel, {route_blocks(args.tokens), kRouteThreads}, stream, args);
}

void route_backward(const RouteBackwardArgs& args, Stream stream) {
  launch("route_backward", route_backward_kernel, {route_blocks(args.tokens), kRouteThreads}, stream, args);
}

}  // namespace mrb::kernels
