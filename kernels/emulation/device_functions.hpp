// The names that nvcc gives to the execution model, with the machine of the emulation behind them. Only what the kernels
// use; kernels/device.cuh includes it where nvcc does not compile.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>

#include "kernels/emulation/machine.hpp"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

// ---- Indices

namespace mrb::emulation {

// Reads as an unsigned number, and asks the machine each time.
template <unsigned (*kAsk)()>
struct Index {
  struct {
    operator unsigned() const { return kAsk(); }
  } x;
};

}  // namespace mrb::emulation

inline constexpr mrb::emulation::Index<mrb::emulation::thread_index> threadIdx{};
inline constexpr mrb::emulation::Index<mrb::emulation::block_index> blockIdx{};
inline constexpr mrb::emulation::Index<mrb::emulation::block_threads> blockDim{};
inline constexpr mrb::emulation::Index<mrb::emulation::grid_blocks> gridDim{};

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

// ---- Meeting points

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  mrb::emulation::meet_block(where);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, std::source_location where = std::source_location::current()) {
  mrb::emulation::meet_warp(mrb::emulation::WarpFunction::sync, mask, 0, 0, where);
}

namespace mrb::emulation {

template <class T>
T shuffle(unsigned mask, T value, unsigned source_lane, std::source_location where) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = meet_warp(WarpFunction::shuffle, mask, bits, source_lane, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline unsigned lane() {
  return thread_index() % 32;
}

}  // namespace mrb::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, std::source_location where = std::source_location::current()) {
  return mrb::emulation::shuffle(mask, value, static_cast<unsigned>(lane) % 32, where);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, std::source_location where = std::source_location::current()) {
  return mrb::emulation::shuffle(mask, value, mrb::emulation::lane() ^ static_cast<unsigned>(lanes), where);
}

// A lane with no other so far before or behind it gets its own value back.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, std::source_location where = std::source_location::current()) {
  const unsigned lane = mrb::emulation::lane();
  return mrb::emulation::shuffle(mask, value, lane < by ? lane : lane - by, where);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, std::source_location where = std::source_location::current()) {
  const unsigned lane = mrb::emulation::lane();
  return mrb::emulation::shuffle(mask, value, lane + by < 32 ? lane + by : lane, where);
}

inline unsigned __ballot_sync(unsigned mask, int value, std::source_location where = std::source_location::current()) {
  using namespace mrb::emulation;
  return static_cast<unsigned>(meet_warp(WarpFunction::ballot, mask, value != 0, 0, where));
}

inline int __any_sync(unsigned mask, int value, std::source_location where = std::source_location::current()) {
  return __ballot_sync(mask, value, where) != 0;
}

inline int __all_sync(unsigned mask, int value, std::source_location where = std::source_location::current()) {
  return __ballot_sync(mask, value, where) == mask;
}

inline unsigned __match_any_sync(unsigned mask, int value,
                                 std::source_location where = std::source_location::current()) {
  using namespace mrb::emulation;
  return static_cast<unsigned>(meet_warp(WarpFunction::match, mask, static_cast<unsigned>(value), 0, where));
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value,
                                  std::source_location where = std::source_location::current()) {
  using namespace mrb::emulation;
  return static_cast<unsigned>(meet_warp(WarpFunction::add, mask, value, 0, where));
}

inline unsigned __reduce_min_sync(unsigned mask, unsigned value,
                                  std::source_location where = std::source_location::current()) {
  using namespace mrb::emulation;
  return static_cast<unsigned>(meet_warp(WarpFunction::min_unsigned, mask, value, 0, where));
}

inline unsigned __reduce_max_sync(unsigned mask, unsigned value,
                                  std::source_location where = std::source_location::current()) {
  using namespace mrb::emulation;
  return static_cast<unsigned>(meet_warp(WarpFunction::max_unsigned, mask, value, 0, where));
}

// ---- Atomics: all threads are one host thread, so a plain operation is one; others go on before it.

template <class T>
T atomicAdd(T* at, T value) {
  mrb::emulation::pause();
  const T before = *at;
  *at = before + value;
  return before;
}

template <class T>
T atomicMax(T* at, T value) {
  mrb::emulation::pause();
  const T before = *at;
  *at = std::max(before, value);
  return before;
}

// ---- Numbers

inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline int __ffs(int bits) {
  return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1;
}
