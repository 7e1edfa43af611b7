// Rows to E4M3 with one scale for each block of 128 numbers, and back.
//
//   amax   = largest magnitude of the block, at least 1e-4; NaN if it holds one
//   scale  = amax / 448, or that rounded up to a power of two, of which the exponent's byte crosses
//   code   = E4M3(number * (448 / amax)), or number * (1 / scale)
//
// Launch: to E4M3, 32 lanes per block of f32 and 16 of bf16, each with one 16-byte word; back, one lane per 16 codes.
//         256 threads per block, at most 4096 blocks, looping.
// Needs:  hidden a multiple of 16, so that scales and words are aligned; no less than that may be in the last block.
// Cost:   row_count * hidden * (element + 1 + 1/32) bytes each way. At 4096 rows, hidden 7168 in bf16 that is 89 MB, or
//         19 us at 4.8 TB/s (H200); before sm_89 rounding takes about 10 integer operations a number, which costs more.
// Checked against: src/dispatch/wire_type.cpp (RowCodec), bit for bit.
#include "kernels/device.cuh"
#include "kernels/dispatch/dispatch_kernels.hpp"
#include "kernels/numbers.cuh"

namespace mrb::kernels {

namespace {

constexpr unsigned kCastThreads = 256;
constexpr float kE4m3Max = 448;
constexpr float kAmaxMin = 1e-4f;

// What codes are multiplied by on the way back. Rounded up to a power of two: the exponent, one more where there are bits
// behind it.
__device__ float scale_of_block(float amax, Scales scales) {
  const float scale = amax / kE4m3Max;
  const std::uint32_t bits = __float_as_uint(scale), exponent = bits >> 23;
  if (scales == Scales::f32 || exponent == 0xffu) return scale;
  const std::uint32_t rounded = exponent + ((bits & 0x7fffffu) != 0 ? 1 : 0);
  return __uint_as_float((rounded < 0xfeu ? rounded : 0xfeu) << 23);
}

template <class T, Scales kScales>
__global__ void __launch_bounds__(kCastThreads) cast_to_fp8_kernel(CastArgs args) {
  constexpr int kElements = Word<T>::kElements;
  constexpr int kLanes = kScaleBlock / kElements;  // of one block
  constexpr int kBlocksAtOnce = kWarpSize / kLanes;
  const int blocks = (args.hidden + kScaleBlock - 1) / kScaleBlock;
  const std::int64_t steps = (std::int64_t{args.row_count} * blocks + kBlocksAtOnce - 1) / kBlocksAtOnce;
  for (std::int64_t step = warp_index(); step < steps; step += warp_count()) {
    const std::int64_t number = step * kBlocksAtOnce + lane_index() / kLanes;
    const std::int64_t row = number / blocks;
    const int block = static_cast<int>(number % blocks);
    const int first = block * kScaleBlock + lane_index() % kLanes * kElements;
    const bool has_work = row < args.row_count && first < args.hidden;
    float values[kElements] = {};
    if (has_work) {
      Word<T>::unpack(static_cast<const uint4*>(args.from)[(row * args.hidden + first) / kElements], values);
    }
    std::uint32_t largest = 0;  // bits of magnitudes are in the order of magnitudes, NaN above all
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const std::uint32_t magnitude = __float_as_uint(values[i]) & 0x7fffffffu;
      largest = magnitude > largest ? magnitude : largest;
    }
    for (int distance = kLanes / 2; distance > 0; distance /= 2) {
      const std::uint32_t other = __shfl_xor_sync(kAllLanes, largest, distance);
      largest = other > largest ? other : largest;
    }
    if (!has_work) continue;
    const float found = __uint_as_float(largest);
    const float amax = found < kAmaxMin ? kAmaxMin : found;
    const float scale = scale_of_block(amax, kScales);
    const float factor = kScales == Scales::f32 ? kE4m3Max / amax : 1 / scale;
#pragma unroll
    for (int i = 0; i < kElements; ++i) values[i] *= factor;
    auto* to = static_cast<std::uint8_t*>(args.to) + row * args.encoded_stride_bytes;
#pragma unroll
    for (int i = 0; i < kElements; i += 4) {
      *reinterpret_cast<std::uint32_t*>(to + first + i) = to_e4m3_word(values + i);
    }
    if (lane_index() % kLanes != 0) continue;
    if (kScales == Scales::f32) {
      reinterpret_cast<float*>(to + args.hidden)[block] = scale;
    } else {
      to[args.hidden + block] = static_cast<std::uint8_t>(__float_as_uint(scale) >> 23);
    }
  }
}

template <class T, Scales kScales>
__global__ void __launch_bounds__(kCastThreads) cast_from_fp8_kernel(CastArgs args) {
  constexpr int kElements = Word<T>::kElements;
  constexpr int kCodes = static_cast<int>(kWordBytes);
  const int words = args.hidden / kCodes;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < std::int64_t{args.row_count} * words;
       i += stride) {
    const std::int64_t row = i / words;
    const int word = static_cast<int>(i % words), block = word * kCodes / kScaleBlock;
    const auto* from = static_cast<const std::uint8_t*>(args.from) + row * args.encoded_stride_bytes;
    const float scale = kScales == Scales::f32 ? reinterpret_cast<const float*>(from + args.hidden)[block]
                                               : __uint_as_float(std::uint32_t{from[args.hidden + block]} << 23);
    const uint4 codes = reinterpret_cast<const uint4*>(from)[word];
    const std::uint32_t four_codes[] = {codes.x, codes.y, codes.z, codes.w};
    float values[kCodes];
#pragma unroll
    for (int code = 0; code < kCodes; ++code) {
      values[code] = from_e4m3(four_codes[code / 4] >> code % 4 * 8 & 0xffu) * scale;
    }
    auto* to = static_cast<uint4*>(args.to) + i * (kCodes / kElements);
#pragma unroll
    for (int part = 0; part < kCodes / kElements; ++part) to[part] = Word<T>::pack(values + part * kElements);
  }
}

void check(const char* kernel, const CastArgs& args, Scales scales) {
  require_multiple(kernel, "numbers of a row", args.hidden, kWordBytes);
  require_multiple(kernel, "bytes from row to row", args.encoded_stride_bytes, kWordBytes);
  require_range(kernel, "stride in bytes", args.encoded_stride_bytes, encoded_row_bytes(args.hidden, scales),
                encoded_row_bytes(args.hidden, scales) + (1 << 20));
}

template <class Kernel>
Kernel choose(Element element, Scales scales, Kernel f32, Kernel f32_power_of_two, Kernel bf16,
              Kernel bf16_power_of_two) {
  if (element == Element::f32) return scales == Scales::f32 ? f32 : f32_power_of_two;
  return scales == Scales::f32 ? bf16 : bf16_power_of_two;
}

using CastKernel = void (*)(CastArgs);

}  // namespace

void cast_to_fp8(const CastArgs& args, Element element, Scales scales, Stream stream) {
  check("cast_to_fp8", args, scales);
  const auto kernel = choose<CastKernel>(
      element, scales, cast_to_fp8_kernel<float, Scales::f32>, cast_to_fp8_kernel<float, Scales::power_of_two>,
      cast_to_fp8_kernel<Bf16, Scales::f32>, cast_to_fp8_kernel<Bf16, Scales::power_of_two>);
  const std::int64_t lanes_per_row = std::int64_t{(args.hidden + kScaleBlock - 1) / kScaleBlock} *
                                     (element == Element::f32 ? kScaleBlock / 4 : kScaleBlock / 8);
  launch("cast_to_fp8", kernel, {blocks_for(args.row_count * lanes_per_row, kCastThreads), kCastThreads}, stream, args);
}

void cast_from_fp8(const CastArgs& args, Element element, Scales scales, Stream stream) {
  check("cast_from_fp8", args, scales);
  const auto kernel = choose<CastKernel>(
      element, scales, cast_from_fp8_kernel<float, Scales::f32>, cast_from_fp8_kernel<float, Scales::power_of_two>,
      cast_from_fp8_kernel<Bf16, Scales::f32>, cast_from_fp8_kernel<Bf16, Scales::power_of_two>);
  const std::int64_t words = std::int64_t{args.row_count} * (args.hidden / static_cast<int>(kWordBytes));
  launch("cast_from_fp8", kernel, {blocks_for(words, kCastThreads), kCastThreads}, stream, args);
}

}  // namespace mrb::kernels
