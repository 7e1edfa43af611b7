// Kernels with the mistakes that kernels have, and that each is found. Only in emulation: a GPU may well forgive them.
#include <unistd.h>

#include <sys/wait.h>

#include <numeric>
#include <string>
#include <vector>

#include "kernels/device.cuh"
#include "kernels/device.hpp"
#include "support/catch.hpp"

extern "C" [[gnu::weak]] void __asan_poison_memory_region(const void volatile*, std::size_t);

namespace mrb::kernels {

namespace {

constexpr unsigned kThreads = 64;

enum class Planted {
  nothing,
  missing_barrier,
  barrier_in_a_branch,
  early_return,
  out_of_bounds_write,
  shared_out_of_bounds,
  mask_of_all_lanes,
  caller_not_in_mask,
  different_masks,
  foreign_lane
};

// reversed[i] = numbers[kThreads - 1 - i], by way of shared memory; and the sum of each warp's even lanes.
template <Planted kPlanted>
__global__ void reverse(const int* numbers, int* reversed, int* sums) {
  MRB_SHARED(int, shared, kThreads);
  const int i = static_cast<int>(threadIdx.x);
  const int last = static_cast<int>(kThreads) - 1;
  if (kPlanted == Planted::early_return && i == last) return;
  shared[kPlanted == Planted::shared_out_of_bounds ? i + 1 : i] = numbers[i];
  if (kPlanted == Planted::barrier_in_a_branch) {
    if (i < last) __syncthreads();
  } else if (kPlanted != Planted::missing_barrier) {
    __syncthreads();
  }
  reversed[kPlanted == Planted::out_of_bounds_write ? i + 1 : i] = shared[last - i];

  constexpr unsigned kEvenLanes = 0x55555555u;
  if (i % 2 != 0 && kPlanted != Planted::caller_not_in_mask) return;
  unsigned mask = kEvenLanes;
  if (kPlanted == Planted::mask_of_all_lanes) mask = kAllLanes;
  if (kPlanted == Planted::different_masks && i % 4 == 0) mask = 0x11111111u;
  int sum = numbers[i];
  for (int distance = 16; distance >= 2; distance /= 2) sum += __shfl_xor_sync(mask, sum, distance);
  if (kPlanted == Planted::foreign_lane) sum += __shfl_xor_sync(mask, sum, 1);
  if (lane_index() == 0) sums[i / kWarpSize] = sum;
}

template <Planted kPlanted>
void run_reverse() {
  std::vector<int> numbers(kThreads);
  std::iota(numbers.begin(), numbers.end(), 100);
  const std::vector<int> expected(numbers.rbegin(), numbers.rend());
  const test::DeviceArray<int> in(numbers), out(kThreads), sums(2);
  launch("reverse", reverse<kPlanted>, {1, kThreads}, nullptr, in.data(), out.data(), sums.data());
  CHECK(sums.read() == std::vector<int>{16 * 115, 16 * 147});  // 100 + 102 + ... + 130, and 132 + ...
  if (out.read() != expected) throw std::runtime_error("another result");
}

// Of a peer's memory: data and then a flag, as a receiver finds it.
template <bool kReleases>
__global__ void put_and_flag(uint4* data, std::uint32_t* flag) {
  if (kReleases) {
    store_for_peer(data + threadIdx.x, uint4{7, 7, 7, 7});
    __syncwarp();
    if (threadIdx.x == 0) add_release(flag, 1);
  } else {
    store_for_peer(data + threadIdx.x, uint4{7, 7, 7, 7});
    __syncwarp();
    if (threadIdx.x == 0) atomicAdd(flag, 1u);
  }
}

__global__ void wait_and_sum(const uint4* data, const std::uint32_t* flag, std::uint32_t* sum) {
  while (load_acquire(flag) == 0) pause();
  *sum = 0;
  for (int i = 0; i < kWarpSize; ++i) *sum += data[i].x;
}

template <bool kReleases>
std::uint32_t sum_behind_flag() {
  const test::DeviceArray<uint4> data(std::vector<uint4>(kWarpSize, uint4{}));
  const test::DeviceArray<std::uint32_t> flag(std::vector<std::uint32_t>{0}), sum(1);
  test::at_the_same_time({
      [&](Stream s) {
        launch("put", put_and_flag<kReleases>, {1, kWarpSize}, s, data.data(), flag.data());
      },
      [&](Stream s) {
        launch("wait", wait_and_sum, {1, 1}, s, data.data(), flag.data(), sum.data());
      },
  });
  return sum.read()[0];
}

__global__ void wait_for_ever(const std::uint32_t* flag) {
  while (load_acquire(flag) == 0) pause();
}

}  // namespace

}  // namespace mrb::kernels

namespace mrb::test {

namespace {

using kernels::Planted;

// What the address sanitizer says of it, from a process of its own, since it ends it; without the sanitizer, what was
// thrown.
template <class Work>
std::string last_words(const Work& work) {
  if (__asan_poison_memory_region == nullptr) {
    try {
      work();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    work();
    _exit(0);
  }
  close(ends[1]);
  std::string words;
  char buffer[4096];
  for (ssize_t count; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    words.append(buffer, static_cast<std::size_t>(count));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return words;
}

}  // namespace

TEST_CASE("without a mistake the planted kernel reverses and sums", "[kernels]") {
  on_every_schedule([] { kernels::run_reverse<Planted::nothing>(); });
}

TEST_CASE("a missing __syncthreads gives another result", "[kernels]") {
  on_every_schedule([] { CHECK_THROWS_WITH(kernels::run_reverse<Planted::missing_barrier>(), "another result"); });
}

TEST_CASE("a barrier that not all threads reach is found, with its line", "[kernels]") {
  on_every_schedule([] {
    CHECK_THROWS_WITH(kernels::run_reverse<Planted::barrier_in_a_branch>(),
                      contains("kernel reverse, block 0") && contains("planted_faults_test.cpp:"));
    CHECK_THROWS_WITH(kernels::run_reverse<Planted::early_return>(), contains("left the kernel"));
  });
}

TEST_CASE("a warp mask that is wrong is found, with the lane", "[kernels]") {
  on_every_schedule([] {
    CHECK_THROWS_WITH(kernels::run_reverse<Planted::mask_of_all_lanes>(), contains("left the kernel"));
    CHECK_THROWS_WITH(kernels::run_reverse<Planted::caller_not_in_mask>(), contains("the caller is not in the mask"));
    CHECK_THROWS_WITH(kernels::run_reverse<Planted::different_masks>(), contains("mask"));
    CHECK_THROWS_WITH(kernels::run_reverse<Planted::foreign_lane>(), contains("which is not in its mask 0x55555555"));
  });
}

TEST_CASE("a write beside global memory is found", "[kernels]") {
  const auto words = last_words(kernels::run_reverse<Planted::out_of_bounds_write>);
  CHECK_THAT(words, contains("wrote beside its memory of 256 bytes") || contains("use-after-poison"));
}

TEST_CASE("a flag raised without a release is seen before the data", "[kernels]") {
  int early = 0;
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    emulation::set_schedule(seed);
    CHECK(kernels::sum_behind_flag<true>() == 7 * 32);
    early += kernels::sum_behind_flag<false>() != 7 * 32;
  }
  CHECK(early > 0);
}

TEST_CASE("a wait that never ends is ended", "[kernels]") {
  const DeviceArray<std::uint32_t> flag(std::vector<std::uint32_t>{0});
  CHECK_THROWS_WITH(kernels::launch("wait_for_ever", kernels::wait_for_ever, {1, 1}, nullptr, flag.data()),
                    contains("threads spin"));
}

TEST_CASE("after a fault the machine runs the next kernel", "[kernels]") {
  CHECK_THROWS(kernels::run_reverse<Planted::early_return>());
  kernels::run_reverse<Planted::nothing>();
}

// A row of shared memory is exactly as long as it says; only the sanitizer sees beyond it.
TEST_CASE("a write beside shared memory is found by the address sanitizer", "[kernels]") {
  if (__asan_poison_memory_region == nullptr) return;
  CHECK_THAT(last_words(kernels::run_reverse<Planted::shared_out_of_bounds>), contains("heap-buffer-overflow"));
}

}  // namespace mrb::test
