// The only place where units are converted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mrb {

constexpr double kGbyte = 1e9, kTflop = 1e12;

constexpr double ns_to_ms(std::int64_t ns) {
  return static_cast<double>(ns) / 1e6;
}
constexpr double ns_to_us(std::int64_t ns) {
  return static_cast<double>(ns) / 1e3;
}
constexpr double ns_to_s(std::int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}
constexpr std::int64_t s_to_ns(double s) {
  return static_cast<std::int64_t>(s * 1e9);
}

// Bandwidth in units of 1e9 bytes a second; zero when no time passed.
constexpr double gbyte_per_s(std::uint64_t bytes, std::int64_t ns) {
  return ns > 0 ? static_cast<double>(bytes) / static_cast<double>(ns) : 0;
}

// For people: "512 B", "1.5 KiB", "3.2 GiB".
std::string bytes_text(std::uint64_t bytes);

// "1 rank", "4 ranks".
std::string counted(std::size_t count, const char* what);

}  // namespace mrb
