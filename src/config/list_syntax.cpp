#include "config/list_syntax.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace mrb {

namespace {

constexpr int kDigitsMax = 9;  // of a number in a range: products stay far from overflow

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct Range {
  std::int64_t low = 0;
  std::int64_t high = 0;
  char step = '+';  // or '*'
  std::int64_t by = 0;
};

// "8-64+8". Nothing when the text is no range.
std::optional<Range> parse_range(const std::string& text) {
  Range range;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&](std::int64_t& value) {
    const bool is_digit = at != end && *at >= '0' && *at <= '9';
    const auto [next, error] = std::from_chars(at, std::min(end, at + kDigitsMax), value);
    at = next;
    return is_digit && error == std::errc();
  };
  if (!number(range.low) || at == end || *at++ != '-') return std::nullopt;
  if (!number(range.high) || at == end || (*at != '+' && *at != '*')) return std::nullopt;
  range.step = *at++;
  if (!number(range.by) || at != end) return std::nullopt;
  return range;
}

// False when the range goes nowhere or is too long.
bool append_range(const Range& range, std::size_t most, std::vector<std::string>& values) {
  const bool multiplies = range.step == '*';
  if (range.low > range.high || range.by < (multiplies ? 2 : 1) || (multiplies && range.low == 0)) return false;
  for (std::int64_t value = range.low; value <= range.high; value = multiplies ? value * range.by : value + range.by) {
    if (values.size() == most) return false;
    values.push_back(std::to_string(value));
  }
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> split_list(const std::string& text, std::size_t most) {
  std::vector<std::string> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string part = trimmed(text.substr(begin, comma - begin));
    if (const auto range = parse_range(part)) {
      if (!append_range(*range, most, values)) return std::nullopt;
    } else {
      if (values.size() == most) return std::nullopt;
      values.push_back(part);
    }
    begin = comma + 1;
  }
  return values;
}

}  // namespace mrb
