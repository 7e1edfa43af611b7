// From logits to the log-probability of a chosen token, back, and to a token that is drawn.
//
// log_prob  one pass over a row: each thread keeps the largest logit and the sum of exponentials so far, and the block
//           joins them. No copy of the logits is made; the way back overwrites them with their gradient.
// sample    inverts the cumulative sum in ascending id, in f64, a tile of 128 tokens at a time: a scan over the block
//           finds the first token beyond the uniform number; the last possible one takes what rounding leaves.
//
// Launch: a block of 128 threads per row.
// Needs:  at least one token that may be drawn.
// Cost:   log_prob rows * vocabulary * 4 bytes, its way back and sample twice that. At 4096 rows of 151,936 that is 2.5 GB,
//         or 519 us at 4.8 TB/s (H200), and 5.0 GB, or 1037 us.
// Checked against: src/compute/cpu/tokens.cpp.
#include "kernels/block.cuh"
#include "kernels/model/model_kernels.hpp"

namespace mrb::kernels {

namespace {

// log of the sum of exp(logits * scale), without one of them (-1: with all). Every thread gets it.
__device__ double log_sum_exp(const float* logits, int vocabulary, float scale, int without) {
  MRB_SHARED(float, largest_of_warp, kRowWarps);
  float largest = -INFINITY, sum = 0;
  for (int v = static_cast<int>(threadIdx.x); v < vocabulary; v += static_cast<int>(kRowThreads)) {
    if (v == without) continue;
    const float logit = logits[v] * scale;
    if (logit > largest) {
      sum *= expf(largest - logit);
      largest = logit;
    }
    sum += expf(logit - largest);
  }
  const float of_warp = max_of_lanes(largest);
  if (lane_index() == 0) largest_of_warp[threadIdx.x / kWarpSize] = of_warp;
  __syncthreads();
  float of_block = largest_of_warp[0];
  for (int warp = 1; warp < kRowWarps; ++warp) {
    of_block = largest_of_warp[warp] > of_block ? largest_of_warp[warp] : of_block;
  }
  const double mine = sum == 0 ? 0.0 : static_cast<double>(sum) * exp(static_cast<double>(largest - of_block));
  return static_cast<double>(of_block) + log(sum_of_block(mine));
}

__global__ void __launch_bounds__(kRowThreads) log_prob_kernel(LogProbArgs args) {
  const std::int64_t row = blockIdx.x;
  const float* logits = args.logits + row * args.vocabulary;
  const auto scale = static_cast<float>(1.0 / args.temperature);
  const double log_sum = log_sum_exp(logits, args.vocabulary, scale, -1);
  if (threadIdx.x != 0) return;
  args.log_sum[row] = static_cast<float>(log_sum);
  args.log_probs[row] = static_cast<float>(static_cast<double>(logits[args.targets[row]] * scale) - log_sum);
}

// d log p(target) / d logit_v = ([v = target] - p_v) / temperature.
__global__ void __launch_bounds__(kRowThreads) log_prob_backward_kernel(LogProbBackwardArgs args) {
  const std::int64_t row = blockIdx.x;
  float* logits = args.logits + row * args.vocabulary;
  const auto scale = static_cast<float>(1.0 / args.temperature);
  const float factor = args.dlog_probs[row] * scale, shift = args.log_sum[row];
  for (int v = static_cast<int>(threadIdx.x); v < args.vocabulary; v += static_cast<int>(kRowThreads)) {
    const float p = expf(logits[v] * scale - shift);
    logits[v] = v == args.targets[row] ? factor - factor * p : -factor * p;
  }
}

__global__ void __launch_bounds__(kRowThreads) sample_kernel(SampleArgs args) {
  constexpr unsigned kNone = 0xffffffffu;
  MRB_SHARED(double, of_warp, kRowWarps);
  MRB_SHARED(unsigned, drawn_of_warp, kRowWarps);
  MRB_SHARED(unsigned, possible_of_warp, kRowWarps);
  const std::int64_t row = blockIdx.x;
  const float* logits = args.logits + row * args.vocabulary;
  const auto scale = static_cast<float>(1.0 / args.temperature);
  const double log_sum = log_sum_exp(logits, args.vocabulary, scale, -1);
  // Over the tokens that may be drawn, so that it holds also where the excluded one has nearly all probability.
  const double drawable_sum = args.excluded < 0 ? log_sum : log_sum_exp(logits, args.vocabulary, scale, args.excluded);
  const double uniform = args.uniforms[row];
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  double before = 0;  // of the tiles so far
  unsigned drawn = kNone, last_possible = 0;
  for (int start = 0; start < args.vocabulary && drawn == kNone; start += static_cast<int>(kRowThreads)) {
    const int v = start + static_cast<int>(threadIdx.x);
    const bool may_be_drawn = v < args.vocabulary && v != args.excluded;
    const double p = may_be_drawn ? exp(static_cast<double>(logits[v] * scale) - drawable_sum) : 0.0;
    double sum = p;  // up to this lane
    for (unsigned distance = 1; distance < kWarpSize; distance *= 2) {
      const double other = __shfl_up_sync(kAllLanes, sum, distance);
      if (lane_index() >= static_cast<int>(distance)) sum += other;
    }
    if (lane_index() == kWarpSize - 1) of_warp[warp] = sum;
    __syncthreads();
    double cumulative = before;
    for (int other = 0; other < warp; ++other) cumulative += of_warp[other];
    cumulative += sum;
    const unsigned beyond = p > 0 && cumulative > uniform ? static_cast<unsigned>(v) : kNone;
    const unsigned first_beyond = __reduce_min_sync(kAllLanes, beyond);
    const unsigned possible = __reduce_max_sync(kAllLanes, p > 0 ? static_cast<unsigned>(v) : 0u);
    if (lane_index() == 0) {
      drawn_of_warp[warp] = first_beyond;
      possible_of_warp[warp] = possible;
    }
    __syncthreads();
    for (int other = 0; other < kRowWarps; ++other) {
      before += of_warp[other];
      drawn = drawn_of_warp[other] < drawn ? drawn_of_warp[other] : drawn;
      last_possible = possible_of_warp[other] > last_possible ? possible_of_warp[other] : last_possible;
    }
    __syncthreads();  // before the next tile writes
  }
  if (threadIdx.x != 0) return;
  if (drawn == kNone) drawn = last_possible;
  args.ids[row] = static_cast<std::int32_t>(drawn);
  args.log_probs[row] = static_cast<float>(static_cast<double>(logits[drawn] * scale) - log_sum);
}

}  // namespace

void log_prob(const LogProbArgs& args, Stream stream) {
  launch("log_prob", log_prob_kernel, {static_cast<unsigned>(args.rows), kRowThreads}, stream, args);
}

void log_prob_backward(const LogProbBackwardArgs& args, Stream stream) {
  launch("log_prob_backward", log_prob_backward_kernel, {static_cast<unsigned>(args.rows), kRowThreads}, stream, args);
}

void sample(const SampleArgs& args, Stream stream) {
  require_range("sample", "vocabulary", args.vocabulary, args.excluded < 0 ? 1 : 2, 1 << 30);
  launch("sample", sample_kernel, {static_cast<unsigned>(args.rows), kRowThreads}, stream, args);
}

}  // namespace mrb::kernels
