// Versions of libraries and drivers, to compare.
#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace mrb {

// The first number of the form MAJOR.MINOR[.PATCH] in a text; zeros when there is none.
inline std::array<int, 3> version_number(const std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::array<int, 3> version{};
    if (std::sscanf(text.c_str() + at, "%d.%d.%d", &version[0], &version[1], &version[2]) >= 2) return version;
  }
  return {};
}

}  // namespace mrb
