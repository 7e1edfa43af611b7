// What every kernel file includes first. The same sources are compiled by nvcc, and by the host's compiler against the
// execution model of kernels/emulation; this header is the one place that knows which. What is written in PTX stands here
// too, behind a small function with a twin for the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/launch.hpp"

#ifdef __CUDACC__

// Arrays in shared memory, seen by all threads of a block, uninitialised.
#define MRB_SHARED(T, name, count) __shared__ T name[count]
// The shared memory that the launch gave, as an array of T.
#define MRB_SHARED_OF_LAUNCH(T, name)             \
  extern __shared__ uint4 mrb_shared_of_launch[]; \
  T* const name = reinterpret_cast<T*>(mrb_shared_of_launch)

#else

#include "kernels/emulation/device_functions.hpp"

#define MRB_SHARED(T, name, count)   \
  static const char name##_site = 0; \
  T* const name =                    \
      static_cast<T*>(::mrb::emulation::shared_memory(&name##_site, sizeof(T) * static_cast<std::size_t>(count)))
#define MRB_SHARED_OF_LAUNCH(T, name) T* const name = static_cast<T*>(::mrb::emulation::shared_memory(nullptr, 0))

#endif

namespace mrb::kernels {

constexpr int kWarpSize = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

#ifdef __CUDACC__

namespace detail {
void check_launch(const char* kernel);  // throws Error(environment) with CUDA's words
}

// An empty grid does nothing. Throws Error(environment) when CUDA refuses.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), LaunchShape shape, Stream stream,
            const Arguments&... arguments) {
  if (shape.blocks == 0) return;
  kernel<<<shape.blocks, shape.threads, shape.shared_bytes, static_cast<cudaStream_t>(stream)>>>(arguments...);
  detail::check_launch(name);
}

// Of an angle in half turns, from -1 to 1: without the case for large angles, which keeps an array in local memory.
__device__ inline float sine_of_half_turns(float half_turns) {
  return sinpif(half_turns);
}
__device__ inline float cosine_of_half_turns(float half_turns) {
  return cospif(half_turns);
}

// Others may go on: for a thread that spins.
__device__ inline void pause() {
  __nanosleep(64);
}

// Nanoseconds, the same on all multiprocessors; steps of up to 1 us.
__device__ inline std::uint64_t time_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Into memory that another device may read after the next release.
template <class T>
__device__ void store_for_peer(T* to, T value) {
  *to = value;
}

// What this thread stored before, or knows by a barrier to be stored, is seen by whoever acquires the new value.
__device__ inline void add_release(std::uint32_t* at, std::uint32_t value) {
  asm volatile("red.release.sys.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ inline void store_release(std::uint32_t* at, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ inline std::uint32_t load_acquire(const std::uint32_t* at) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}

#else

template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), LaunchShape shape, Stream stream,
            const Arguments&... arguments) {
  if (shape.blocks == 0) return;
  emulation::run_grid({name, {shape.blocks, shape.threads, shape.shared_bytes}, [=] { kernel(arguments...); }, stream});
}

inline float sine_of_half_turns(float half_turns) {
  return static_cast<float>(std::sin(M_PI * half_turns));
}
inline float cosine_of_half_turns(float half_turns) {
  return static_cast<float>(std::cos(M_PI * half_turns));
}
inline void pause() {
  emulation::pause();
}
inline std::uint64_t time_ns() {
  return emulation::time_ns();
}
template <class T>
void store_for_peer(T* to, T value) {
  emulation::put_word(to, &value, sizeof value);
}
inline void add_release(std::uint32_t* at, std::uint32_t value) {
  emulation::pause();
  emulation::release();
  *at += value;
}
inline void store_release(std::uint32_t* at, std::uint32_t value) {
  emulation::pause();
  emulation::release();
  *at = value;
}
inline std::uint32_t load_acquire(const std::uint32_t* at) {
  return *at;
}

#endif

// ---- What follows from these

__device__ inline int lane_index() {
  return static_cast<int>(threadIdx.x % kWarpSize);
}

// Of the whole grid.
__device__ inline std::int64_t warp_index() {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarpSize;
}
__device__ inline std::int64_t warp_count() {
  return std::int64_t{gridDim.x} * blockDim.x / kWarpSize;
}

// Over groups of `lanes` neighbours, a power of two: every lane of the group gets the result. All lanes of the warp call.
__device__ inline float sum_of_lanes(float value, int lanes = kWarpSize) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}
__device__ inline float max_of_lanes(float value, int lanes = kWarpSize) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(kAllLanes, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

}  // namespace mrb::kernels
