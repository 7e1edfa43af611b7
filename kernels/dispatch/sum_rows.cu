// Sums of rows on the way back: sum_parts of rows listed one by one (a rank's, a node's partial reduction), and
// unpermute_rows of the top_k rows of each token with the router's weights, forward and backward.
//
// Sums are in f32, in the order given (ascending k), and rounded once; the first row is taken as it is, since 0 + -0.0
// would change its sign.
//
// Launch: a block of 128 threads per sum, at most 4096, looping; backward with one sum per warp in shared memory.
// Needs:  row_bytes a multiple of 16.
// Cost:   forward (1 + top_k) * token_count * row_bytes, backward (1 + 2 top_k). At 4096 tokens, hidden 7168 in bf16,
//         top-k 8: 528 MB, or 110 us at 4.8 TB/s (H200), and 998 MB, or 208 us.
// Checked against: src/dispatch/row_sums.cpp (through_wire in bf16, sum_rows in f32) bit for bit; with weights, and
//         backward, against fused multiply-adds in the same order.
#include "kernels/device.cuh"
#include "kernels/dispatch/dispatch_kernels.hpp"
#include "kernels/numbers.cuh"

namespace mrb::kernels {

namespace {

constexpr unsigned kSumThreads = 128;

// A sum of words that is empty until the first.
template <class T>
struct WordSum {
  float values[Word<T>::kElements] = {};
  bool is_empty = true;

  __device__ void add(uint4 word, float weight) {
    float more[Word<T>::kElements];
    Word<T>::unpack(word, more);
#pragma unroll
    for (int i = 0; i < Word<T>::kElements; ++i) {
      values[i] = is_empty ? weight * more[i] : fmaf(weight, more[i], values[i]);
    }
    is_empty = false;
  }
};

template <class T>
__global__ void __launch_bounds__(kSumThreads) sum_parts_kernel(SumPartsArgs args) {
  const int words = args.row_bytes / static_cast<int>(kWordBytes);
  for (std::int64_t i = blockIdx.x; i < args.sum_count; i += gridDim.x) {
    const std::int32_t first = args.first_part[i], end = args.first_part[i + 1];
    for (int word = static_cast<int>(threadIdx.x); word < words; word += static_cast<int>(kSumThreads)) {
      WordSum<T> sum;
      for (std::int32_t part = first; part < end; ++part) {
        const RowPlace place = args.parts[part];
        sum.add(static_cast<const uint4*>(args.buffers[place.buffer])[std::int64_t{place.row} * words + word], 1.0f);
      }
      static_cast<uint4*>(args.sums)[i * words + word] = Word<T>::pack(sum.values);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kSumThreads) unpermute_rows_kernel(UnpermuteArgs args) {
  const int words = args.row_bytes / static_cast<int>(kWordBytes);
  for (std::int64_t token = blockIdx.x; token < args.token_count; token += gridDim.x) {
    const std::int64_t first = token * args.top_k;
    for (int word = static_cast<int>(threadIdx.x); word < words; word += static_cast<int>(kSumThreads)) {
      WordSum<T> sum;
      for (std::int64_t copy = first; copy < first + args.top_k; ++copy) {
        const std::int32_t row = args.row_of_copy[copy];
        if (row < 0) continue;
        sum.add(static_cast<const uint4*>(args.rows)[std::int64_t{row} * words + word],
                args.weights == nullptr ? 1.0f : args.weights[copy]);
      }
      static_cast<uint4*>(args.tokens)[token * words + word] = Word<T>::pack(sum.values);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kSumThreads) unpermute_backward_kernel(UnpermuteBackwardArgs args) {
  constexpr int kElements = Word<T>::kElements;
  MRB_SHARED(float, sum_of_warp, kSumThreads / kWarpSize);
  const int words = args.row_bytes / static_cast<int>(kWordBytes);
  for (std::int64_t copy = blockIdx.x; copy < std::int64_t{args.token_count} * args.top_k; copy += gridDim.x) {
    const std::int32_t row = args.row_of_copy[copy];
    float dot = 0;
    if (row >= 0) {
      const float weight = args.weights[copy];
      const auto* dtoken = static_cast<const uint4*>(args.dtokens) + copy / args.top_k * words;
      for (int word = static_cast<int>(threadIdx.x); word < words; word += static_cast<int>(kSumThreads)) {
        float gradient[kElements], value[kElements];
        Word<T>::unpack(dtoken[word], gradient);
        Word<T>::unpack(static_cast<const uint4*>(args.rows)[std::int64_t{row} * words + word], value);
#pragma unroll
        for (int i = 0; i < kElements; ++i) {
          dot = fmaf(gradient[i], value[i], dot);
          gradient[i] *= weight;
        }
        static_cast<uint4*>(args.drows)[std::int64_t{row} * words + word] = Word<T>::pack(gradient);
      }
    }
    dot = sum_of_lanes(dot);
    if (lane_index() == 0) sum_of_warp[threadIdx.x / kWarpSize] = dot;
    __syncthreads();
    if (threadIdx.x == 0) {
      float sum = 0;
      for (int warp = 0; warp < static_cast<int>(kSumThreads) / kWarpSize; ++warp) sum += sum_of_warp[warp];
      args.dweights[copy] = sum;
    }
    __syncthreads();  // before the next copy's sums
  }
}

}  // namespace

void sum_parts(const SumPartsArgs& args, Element element, Stream stream) {
  require_multiple("sum_parts", "bytes of a row", args.row_bytes, kWordBytes);
  const auto kernel = element == Element::f32 ? sum_parts_kernel<float> : sum_parts_kernel<Bf16>;
  launch("sum_parts", kernel, {blocks_for(args.sum_count, 1), kSumThreads}, stream, args);
}

void unpermute_rows(const UnpermuteArgs& args, Element element, Stream stream) {
  require_multiple("unpermute_rows", "bytes of a row", args.row_bytes, kWordBytes);
  const auto kernel = element == Element::f32 ? unpermute_rows_kernel<float> : unpermute_rows_kernel<Bf16>;
  launch("unpermute_rows", kernel, {blocks_for(args.token_count, 1), kSumThreads}, stream, args);
}

void unpermute_rows_backward(const UnpermuteBackwardArgs& args, Element element, Stream stream) {
  require_multiple("unpermute_rows_backward", "bytes of a row", args.row_bytes, kWordBytes);
  const auto kernel = element == Element::f32 ? unpermute_backward_kernel<float> : unpermute_backward_kernel<Bf16>;
  launch("unpermute_rows_backward", kernel, {blocks_for(std::int64_t{args.token_count} * args.top_k, 1), kSumThreads},
         stream, args);
}

}  // namespace mrb::kernels
