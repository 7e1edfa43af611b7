// What all threads of a block find together, on top of what the lanes of a warp do (device.cuh).
#pragma once

#include "kernels/device.cuh"

namespace mrb::kernels {

constexpr unsigned kRowThreads = 128;  // of kernels that give a block to a row
constexpr int kRowWarps = static_cast<int>(kRowThreads) / kWarpSize;

// The sum over a block of kRowThreads threads, which all call it and all get it; always in the same order.
template <class T>
__device__ T sum_of_block(T value) {
  MRB_SHARED(T, of_warp, kRowWarps);
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  if (lane_index() == 0) of_warp[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  T sum = of_warp[0];
  for (int warp = 1; warp < kRowWarps; ++warp) sum += of_warp[warp];
  __syncthreads();  // before the next call writes
  return sum;
}

// A row's four numbers at once.
__device__ inline float4 load4(const float* row, int word) {
  return reinterpret_cast<const float4*>(row)[word];
}
__device__ inline void store4(float* row, int word, float4 value) {
  reinterpret_cast<float4*>(row)[word] = value;
}

// take(word) for each of the row's words that is this thread's.
template <class Take>
__device__ void for_each_word(int width, const Take& take) {
  for (int word = static_cast<int>(threadIdx.x); word < width / 4; word += static_cast<int>(kRowThreads)) take(word);
}

}  // namespace mrb::kernels
