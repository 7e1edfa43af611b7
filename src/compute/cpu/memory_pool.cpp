#include "compute/cpu/memory_pool.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstdlib>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"
#include "base/units.hpp"

namespace mrb {

namespace {

constexpr std::size_t kSmallest = 4096;
constexpr std::size_t kStepsPerDoubling = 8;

}  // namespace

MemoryPool::~MemoryPool() {
  drop_free();
}

std::size_t MemoryPool::rounded(std::size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t step = std::bit_floor(bytes) / kStepsPerDoubling;
  return (bytes + step - 1) / step * step;
}

void* MemoryPool::allocate(std::size_t bytes) {
  const std::size_t size = rounded(bytes);
  auto& pieces = free_[size];
  if (!pieces.empty()) {
    void* memory = pieces.back();
    pieces.pop_back();
    return memory;
  }
  void* memory = std::aligned_alloc(AlignedBuffer::kAlignment, size);
  if (memory == nullptr) {
    drop_free();
    memory = std::aligned_alloc(AlignedBuffer::kAlignment, size);
  }
  if (memory == nullptr) {
    throw Error(ErrorKind::environment, fmt::format("this machine has no {} of memory left", bytes_text(size)),
                "use a smaller model, fewer ranks on this node, or a lower grpo.micro_batch_tokens");
  }
  return memory;
}

void MemoryPool::release(void* memory, std::size_t bytes) {
  free_[rounded(bytes)].push_back(memory);
}

void MemoryPool::drop_free() {
  for (auto& [size, pieces] : free_) {
    for (void* memory : pieces) std::free(memory);
  }
  free_.clear();
}

}  // namespace mrb
