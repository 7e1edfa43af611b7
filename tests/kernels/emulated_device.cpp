#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/device.hpp"
#include "kernels/emulation/machine.hpp"
#include "kernels/launch.hpp"
#include "support/catch.hpp"

// Of the address sanitizer's runtime; null without it.
extern "C" {
[[gnu::weak]] void __asan_poison_memory_region(const void volatile*, std::size_t);
[[gnu::weak]] void __asan_unpoison_memory_region(const void volatile*, std::size_t);
}

namespace mrb::test {

namespace {

constexpr std::size_t kGuardBytes = 64;  // before and behind the memory
constexpr unsigned char kGuard = 0x5a, kNoise = 0x7f;
constexpr std::uint64_t kSchedules = 3;
constexpr std::int64_t kBlocksMax[kSchedules] = {4096, 3, 2};

}  // namespace

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  auto* const all =
      static_cast<unsigned char*>(::operator new (bytes + 2 * kGuardBytes, std::align_val_t{kGuardBytes}));
  std::fill_n(all, bytes + 2 * kGuardBytes, kGuard);
  std::fill_n(all + kGuardBytes, bytes, kNoise);
  data_ = all + kGuardBytes;
  if (__asan_poison_memory_region == nullptr) return;
  __asan_poison_memory_region(all, kGuardBytes);
  __asan_poison_memory_region(all + kGuardBytes + bytes, kGuardBytes);
}

DeviceMemory::~DeviceMemory() {
  auto* const all = static_cast<unsigned char*>(data_) - kGuardBytes;
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(all, bytes_ + 2 * kGuardBytes);
  ::operator delete (all, std::align_val_t{kGuardBytes});
}

void DeviceMemory::write(const void* from) {
  if (bytes_ > 0) std::memcpy(data_, from, bytes_);
}

void DeviceMemory::read(void* to) const {
  if (bytes_ > 0) std::memcpy(to, data_, bytes_);
  if (__asan_poison_memory_region != nullptr) return;  // which looks closer
  const auto* const first = static_cast<const unsigned char*>(data_) - kGuardBytes;
  const auto is_guard = [](unsigned char byte) { return byte == kGuard; };
  if (!std::all_of(first, first + kGuardBytes, is_guard) ||
      !std::all_of(first + kGuardBytes + bytes_, first + 2 * kGuardBytes + bytes_, is_guard)) {
    throw std::out_of_range("a kernel wrote beside its memory of " + std::to_string(bytes_) + " bytes");
  }
}

void on_every_schedule(const std::function<void()>& test) {
  for (std::uint64_t seed = 1; seed <= kSchedules; ++seed) {
    INFO("schedule " << seed);
    emulation::set_schedule(seed);
    kernels::limit_blocks(kBlocksMax[seed - 1]);
    test();
  }
  kernels::limit_blocks(kBlocksMax[0]);
}

void at_the_same_time(const std::vector<std::function<void(void* stream)>>& launches) {
  emulation::Together together;
  for (const auto& launch : launches) launch(const_cast<void*>(static_cast<const void*>(&launch)));  // any name will do
  together.run();
}

}  // namespace mrb::test
