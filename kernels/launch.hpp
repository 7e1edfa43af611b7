// How kernels are started, in words that need no CUDA header. Every launch function of kernels/ is asynchronous on its
// stream, and throws Error(config) for shapes that its kernel cannot do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mrb::kernels {

using Stream = void*;  // a cudaStream_t; null is the default stream

struct LaunchShape {
  unsigned blocks = 0;
  unsigned threads = 0;  // of one block
  std::size_t shared_bytes = 0;
};

constexpr std::size_t kWordBytes = 16;  // what one lane moves at once

// Enough blocks for `items` with `per_block` in each, and not more than a few waves of the largest card: kernels whose
// work comes in many small pieces loop over it.
unsigned blocks_for(std::int64_t items, std::int64_t per_block);

// That most, 4096 to begin with. Tests set it low, so that the loops are run.
void limit_blocks(std::int64_t blocks_max);

// Throws Error(config) unless `value` is a multiple of `factor`: "kernel pack_rows needs row_bytes to be ...".
void require_multiple(std::string_view kernel, std::string_view name, std::int64_t value, std::int64_t factor);

// Throws Error(config) unless first <= value <= last.
void require_range(std::string_view kernel, std::string_view name, std::int64_t value, std::int64_t first,
                   std::int64_t last);

}  // namespace mrb::kernels
