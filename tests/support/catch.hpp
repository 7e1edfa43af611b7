// Catch2, version 2 or 3, whichever this machine has.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <string>

namespace mrb::test {

#if __has_include(<catch2/catch_all.hpp>)
using Approx = Catch::Approx;
inline auto contains(const std::string& text) {
  return Catch::Matchers::ContainsSubstring(text);
}
#else
using Approx = Catch::Detail::Approx;
inline auto contains(const std::string& text) {
  return Catch::Matchers::Contains(text);
}
#endif

}  // namespace mrb::test
