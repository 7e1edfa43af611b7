#include "base/units.hpp"

#include <fmt/format.h>

namespace mrb {

std::string bytes_text(std::uint64_t bytes) {
  constexpr const char* kNames[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t name = 0;
  while (value >= 1024 && name + 1 < std::size(kNames)) {
    value /= 1024;
    ++name;
  }
  return fmt::format("{:.1f} {}", value, kNames[name]);
}

std::string counted(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace mrb
