// The formats of numbers in memory: f32, bf16 and E4M3. They round as src/dispatch/wire_type.hpp does, which the tests
// compare them with bit for bit. NaN stays NaN, not which one.
#pragma once

#include "kernels/device.cuh"

namespace mrb::kernels {

// A bf16 in memory.
struct Bf16 {
  std::uint16_t bits;
};

__device__ inline float from_bf16(std::uint32_t bits) {
  return __uint_as_float(bits << 16);
}

#ifdef __CUDACC__

// To nearest, ties to even: `low` in the lower half.
__device__ inline std::uint32_t to_bf16_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

#else

inline std::uint32_t to_bf16_bits(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  if (value != value) return 0x7fff;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
inline std::uint32_t to_bf16_pair(float low, float high) {
  return to_bf16_bits(high) << 16 | to_bf16_bits(low);
}

#endif

// Sign, 4 bits of exponent with a bias of 7, 3 of mantissa; to nearest, ties to even; saturates at 448.
__device__ inline std::uint32_t to_e4m3_by_bits(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  const std::uint32_t sign = bits >> 24 & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fu;
  constexpr std::uint32_t kFirstNormal = (127 - 6) << 23;  // 2^-6
  if (magnitude < kFirstNormal) {
    // The last bit of 2^14 is worth 2^-9, which is what a subnormal counts: the addition rounds.
    return sign | (__float_as_uint(__uint_as_float(magnitude) + 16384.0f) & 0xfu);
  }
  const std::uint32_t rounded = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
  constexpr std::uint32_t kBias = (127 - 7) << 3;
  return sign | (rounded - kBias < 0x7eu ? rounded - kBias : 0x7eu);
}

// Four numbers, the first in the lowest byte.
__device__ inline std::uint32_t to_e4m3_word(const float* values) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t low, high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(values[1]), "f"(values[0]));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(values[3]), "f"(values[2]));
  return std::uint32_t{high} << 16 | low;
#else
  return to_e4m3_by_bits(values[0]) | to_e4m3_by_bits(values[1]) << 8 | to_e4m3_by_bits(values[2]) << 16 |
         to_e4m3_by_bits(values[3]) << 24;
#endif
}

// Exact: the exponent is moved to f32's place by a multiplication, which takes subnormals along.
__device__ inline float from_e4m3(std::uint32_t code) {
  if ((code & 0x7fu) == 0x7fu) return __uint_as_float(0x7fc00000u);
  const float magnitude = __uint_as_float((code & 0x7fu) << 20) * __uint_as_float((127u + 120u) << 23);
  return __uint_as_float(__float_as_uint(magnitude) | (code & 0x80u) << 24);
}

// The numbers of one 16-byte word of T.
template <class T>
struct Word;

template <>
struct Word<float> {
  static constexpr int kElements = 4;

  __device__ static void unpack(uint4 word, float* values) {
    values[0] = __uint_as_float(word.x);
    values[1] = __uint_as_float(word.y);
    values[2] = __uint_as_float(word.z);
    values[3] = __uint_as_float(word.w);
  }
  __device__ static uint4 pack(const float* values) {
    return {__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
            __float_as_uint(values[3])};
  }
};

template <>
struct Word<Bf16> {
  static constexpr int kElements = 8;

  __device__ static void unpack(uint4 word, float* values) {
    const std::uint32_t pairs[] = {word.x, word.y, word.z, word.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = from_bf16(pairs[i] & 0xffffu);
      values[2 * i + 1] = from_bf16(pairs[i] >> 16);
    }
  }
  __device__ static uint4 pack(const float* values) {
    return {to_bf16_pair(values[0], values[1]), to_bf16_pair(values[2], values[3]), to_bf16_pair(values[4], values[5]),
            to_bf16_pair(values[6], values[7])};
  }
};

}  // namespace mrb::kernels
