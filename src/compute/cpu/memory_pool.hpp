// Memory that is asked for again and again: what was given back is kept for the next of its size.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

namespace mrb {

// Sizes are rounded up, by an eighth at most, so that micro-batches of slightly different lengths find the same
// pieces again. Fresh pages cost more than the work on them; the pool holds what was in use at once, never more
// than a step's peak.
class MemoryPool {
 public:
  MemoryPool() = default;
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Aligned to 64. Throws Error(environment) when there is none left.
  void* allocate(std::size_t bytes);
  void release(void* memory, std::size_t bytes);  // the same number as was asked for

 private:
  static std::size_t rounded(std::size_t bytes);
  void drop_free();

  std::map<std::size_t, std::vector<void*>> free_;  // by rounded size
};

}  // namespace mrb
