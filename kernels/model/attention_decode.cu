// Attention of one new token per sequence over a paged cache of keys and values, and the rotary positions before it.
//
// attend_decode  a block of 4 warps per (sequence, query head). Each warp takes every fourth token: its lanes hold the
//                query and the running output as 16-byte words, multiply, add up over the warp, and keep the softmax's
//                largest score and sum as they go (online softmax), so that the cache is read once. At the end warp 0
//                joins the four. The new token's key and value are taken from its own row, since no block may read what
//                another is writing; the first head of each group writes them to the cache.
// rotate         a block of 64 threads per row; a thread per pair of numbers turns it in all heads by one angle, which is
//                reduced to one turn in f64: positions go far beyond what f32 tells apart.
//
// Needs:  head_dim a multiple of 4, at most 256.
// Cost:   decode reads 2 * tokens * kv_heads * head_dim * 4 bytes per sequence, and again for each head that shares them
//         unless the cache still has them. 256 sequences of 4096 tokens, 4 kv heads of 128: 4.3 GB, or 895 us at 4.8 TB/s
//         (H200) at best.
// Checked against: src/compute/cpu/attention.cpp.
#include "kernels/device.cuh"
#include "kernels/model/model_kernels.hpp"

namespace mrb::kernels {

namespace {

constexpr int kDecodeWarps = 4;
constexpr int kHeadDimMax = 256;
constexpr int kWordsPerLane = kHeadDimMax / 4 / kWarpSize;

__device__ float4 scaled(float4 v, float by) {
  return {v.x * by, v.y * by, v.z * by, v.w * by};
}

// The softmax's state after some of the tokens: this lane's words of the output, not yet divided.
struct Online {
  float largest = -INFINITY;
  float sum = 0;
  float4 output[kWordsPerLane] = {};

  // A token's score, and its value's words.
  __device__ void add(float score, float weight, const float4* value) {
    const float next = score > largest ? score : largest;
    const float keep = expf(largest - next), take = weight * expf(score - next);
    sum = sum * keep + take;
#pragma unroll
    for (int i = 0; i < kWordsPerLane; ++i) {
      output[i] = {output[i].x * keep + value[i].x * take, output[i].y * keep + value[i].y * take,
                   output[i].z * keep + value[i].z * take, output[i].w * keep + value[i].w * take};
    }
    largest = next;
  }
};

__device__ void load_words(const float* row, int words, float4* to) {
#pragma unroll
  for (int i = 0; i < kWordsPerLane; ++i) {
    const int word = lane_index() + i * kWarpSize;
    to[i] = word < words ? reinterpret_cast<const float4*>(row)[word] : float4{};
  }
}

__device__ void store_words(float* row, int words, const float4* from) {
#pragma unroll
  for (int i = 0; i < kWordsPerLane; ++i) {
    const int word = lane_index() + i * kWarpSize;
    if (word < words) reinterpret_cast<float4*>(row)[word] = from[i];
  }
}

__global__ void __launch_bounds__(kDecodeWarps* kWarpSize) attend_decode_kernel(DecodeArgs args) {
  MRB_SHARED(float, largest_of_warp, kDecodeWarps);
  MRB_SHARED(float, sum_of_warp, kDecodeWarps);
  MRB_SHARED(float4, output_of_warp, kDecodeWarps * kHeadDimMax / 4);
  const int sequence = static_cast<int>(blockIdx.x) / args.heads, head = static_cast<int>(blockIdx.x) % args.heads;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, words = args.head_dim / 4;
  const int heads_per_kv = args.heads / args.kv_heads, kv_head = head / heads_per_kv;
  const int kv_width = args.kv_heads * args.head_dim;
  const float* row = args.qkv + std::int64_t{sequence} * (args.heads * args.head_dim + 2 * kv_width);
  const float* new_key = row + (args.heads + kv_head) * args.head_dim;
  const float* new_value = new_key + kv_width;
  const std::int32_t* pages = args.pages + std::int64_t{sequence} * args.pages_max;
  const int last = args.tokens[sequence] - 1;
  const auto place = [&](int token) {
    return (std::int64_t{pages[token / args.page_tokens]} * args.page_tokens + token % args.page_tokens) * kv_width +
           kv_head * args.head_dim;
  };

  float4 query[kWordsPerLane], key[kWordsPerLane], value[kWordsPerLane];
  load_words(row + head * args.head_dim, words, query);
  const float scale = 1.0f / sqrtf(static_cast<float>(args.head_dim));
  Online online;
  for (int token = warp; token <= last; token += kDecodeWarps) {
    load_words(token == last ? new_key : args.keys + place(token), words, key);
    load_words(token == last ? new_value : args.values + place(token), words, value);
    float score = 0;
#pragma unroll
    for (int i = 0; i < kWordsPerLane; ++i) {
      score += query[i].x * key[i].x + query[i].y * key[i].y + query[i].z * key[i].z + query[i].w * key[i].w;
    }
    online.add(scale * sum_of_lanes(score), 1.0f, value);
    if (token == last && head % heads_per_kv == 0) {
      store_words(args.keys + place(token), words, key);
      store_words(args.values + place(token), words, value);
    }
  }

  float4* outputs = output_of_warp + warp * (kHeadDimMax / 4);
  store_words(reinterpret_cast<float*>(outputs), words, online.output);
  if (lane_index() == 0) {
    largest_of_warp[warp] = online.largest;
    sum_of_warp[warp] = online.sum;
  }
  __syncthreads();
  if (warp != 0) return;
  for (int other = 1; other < kDecodeWarps; ++other) {
    if (sum_of_warp[other] == 0) continue;  // it had no token
    load_words(reinterpret_cast<const float*>(output_of_warp + other * (kHeadDimMax / 4)), words, value);
#pragma unroll
    for (int i = 0; i < kWordsPerLane; ++i) value[i] = scaled(value[i], 1.0f / sum_of_warp[other]);
    online.add(largest_of_warp[other], sum_of_warp[other], value);
  }
#pragma unroll
  for (int i = 0; i < kWordsPerLane; ++i) online.output[i] = scaled(online.output[i], 1.0f / online.sum);
  store_words(args.out + (std::int64_t{sequence} * args.heads + head) * args.head_dim, words, online.output);
}

constexpr unsigned kRotateThreads = 64;

__global__ void __launch_bounds__(kRotateThreads) rotate_kernel(RotateArgs args) {
  const std::int64_t row = blockIdx.x;
  const int half = args.head_dim / 2;
  float* numbers = args.qkv + row * (args.heads + 2 * args.kv_heads) * args.head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < half; i += static_cast<int>(kRotateThreads)) {
    constexpr double kPi = 3.14159265358979323846;
    const double turns = args.positions[row] * pow(args.theta, -2.0 * i / args.head_dim) / (2 * kPi);
    const auto half_turns = static_cast<float>(2 * (turns - rint(turns)));
    const float c = cosine_of_half_turns(half_turns);
    const float s = args.is_backward ? -sine_of_half_turns(half_turns) : sine_of_half_turns(half_turns);
    for (int head = 0; head < args.heads + args.kv_heads; ++head) {  // queries, then keys
      float& real = numbers[head * args.head_dim + i];
      float& imaginary = numbers[head * args.head_dim + half + i];
      const float r = real;
      real = r * c - imaginary * s;
      imaginary = imaginary * c + r * s;
    }
  }
}

}  // namespace

void rotate(const RotateArgs& args, Stream stream) {
  require_multiple("rotate", "numbers of a head", args.head_dim, 2);
  launch("rotate", rotate_kernel, {static_cast<unsigned>(args.rows), kRotateThreads}, stream, args);
}

void attend_decode(const DecodeArgs& args, Stream stream) {
  require_multiple("attend_decode", "numbers of a head", args.head_dim, 4);
  require_range("attend_decode", "head_dim", args.head_dim, 4, kHeadDimMax);
  launch("attend_decode", attend_decode_kernel,
         {static_cast<unsigned>(args.sequences * args.heads), kDecodeWarps * kWarpSize}, stream, args);
}

}  // namespace mrb::kernels
