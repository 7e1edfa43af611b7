#include "manifest/quantity.hpp"

#include <charconv>
#include <cmath>
#include <map>

namespace mrb {

std::optional<double> parse_quantity(const std::string& text) {
  static const std::map<std::string, double> suffixes = {
      {"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},   {"k", 1e3},     {"M", 1e6},
      {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"E", 1e18},   {"Ki", 0x1p10}, {"Mi", 0x1p20},
      {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
  const std::size_t begin = !text.empty() && text[0] == '+' ? 1 : 0;
  double value = 0;
  // "1E" is a suffix and "1E3" an exponent: only the latter is part of the number.
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const auto suffix = suffixes.find(std::string(end, text.data() + text.size()));
  if (suffix == suffixes.end()) return std::nullopt;
  return value * suffix->second;
}

}  // namespace mrb
