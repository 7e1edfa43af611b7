#include "kernels/launch.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace mrb::kernels {

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
