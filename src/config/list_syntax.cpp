#include "config/list_syntax.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

namespace mrb {

namespace {

constexpr int kDigitsMax = 9;  // of a number in a range: products and sums stay far from overflow

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

// How many values it has; 0 when it goes nowhere.
std::int64_t value_count(const Range& range) {
  if (range.low > range.high) return 0;
  if (range.step == '+') return range.by < 1 ? 0 : (range.high - range.low) / range.by + 1;
  if (range.by < 2 || range.low < 1) return 0;
  std::int64_t count = 0;
  for (std::int64_t value = range.low; value <= range.high; value *= range.by) ++count;
  return count;
}

void append(const Range& range, std::vector<std::string>& values) {
  for (std::int64_t value = range.low; value <= range.high;) {
    values.push_back(std::to_string(value));
    value = range.step == '*' ? value * range.by : value + range.by;
  }
}

}  // namespace

SplitList split_list(const std::string& text) {
  SplitList list;
  std::int64_t count = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string part = trimmed(text.substr(begin, comma - begin));
    const auto range = parse_range(part);
    const std::int64_t part_count = range ? value_count(*range) : 1;
    if (part_count == 0) {
      list.problem = "the range '" + part + "' goes nowhere";
      list.fix = "write ranges like 1-8*2 (1 2 4 8) or 8-64+8 (8 16 ... 64)";
      return list;
    }
    count += part_count;
    if (count <= std::int64_t{kListValuesMax}) {
      if (range)
        append(*range, list.values);
      else
        list.values.push_back(part);
    }
    begin = comma + 1;
  }
  if (count > std::int64_t{kListValuesMax}) {
    list.problem = "there are " + std::to_string(count) + " values";
    list.fix = "give at most " + std::to_string(kListValuesMax);
  }
  return list;
}

}  // namespace mrb
