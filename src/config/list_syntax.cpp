#include "config/list_syntax.hpp"

#include <regex>

namespace mrb {

namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// False when the range is no good.
bool append_range(const std::smatch& match, std::size_t most, std::vector<std::string>& values) {
  const long long low = std::stoll(match[1]), high = std::stoll(match[2]), by = std::stoll(match[4]);
  const bool multiplies = match[3] == "*";
  if (low > high || by < (multiplies ? 2 : 1) || (multiplies && low == 0)) return false;
  for (long long value = low; value <= high; value = multiplies ? value * by : value + by) {
    if (values.size() == most) return false;
    values.push_back(std::to_string(value));
  }
  return true;
}

}  // namespace

std::optional<std::vector<std::string>> split_list(const std::string& text, std::size_t most) {
  static const std::regex range(R"((\d{1,9})-(\d{1,9})([*+])(\d{1,9}))");
  std::vector<std::string> values;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string part = trimmed(text.substr(begin, comma - begin));
    std::smatch match;
    if (part.size() < 40 && std::regex_match(part, match, range)) {
      if (!append_range(match, most, values)) return std::nullopt;
    } else {
      if (values.size() == most) return std::nullopt;
      values.push_back(part);
    }
    begin = comma + 1;
  }
  return values;
}

}  // namespace mrb
