#include "kernels/launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace mrb::kernels {

namespace {

std::int64_t most_blocks = 4096;

}  // namespace

unsigned blocks_for(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>(std::min((items + per_block - 1) / per_block, most_blocks));
}

void limit_blocks(std::int64_t blocks_max) {
  most_blocks = blocks_max;
}

void require_multiple(std::string_view kernel, std::string_view name, std::int64_t value, std::int64_t factor) {
  if (value % factor == 0) return;
  throw Error(ErrorKind::config,
              fmt::format("kernel {} moves {} {} at a time, and {} is {}", kernel, factor, name, name, value),
              fmt::format("use a multiple of {}", factor));
}

void require_range(std::string_view kernel, std::string_view name, std::int64_t value, std::int64_t first,
                   std::int64_t last) {
  if (value >= first && value <= last) return;
  throw Error(ErrorKind::config, fmt::format("kernel {} cannot do a {} of {}", kernel, name, value),
              fmt::format("use one from {} to {}", first, last));
}

}  // namespace mrb::kernels
