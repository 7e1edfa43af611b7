#include "config/length_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/units.hpp"
#include "config/faults.hpp"

namespace mrb {

namespace {

constexpr std::size_t kLengthBytesMax = 16 << 20;  // some millions of answers
constexpr int kLengthMax = 1048576;
constexpr std::size_t kShownPathMax = 4096;

// Fills in the text, or returns what is wrong.
std::string read_bounded(const std::string& path, std::string& text) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return "there is no such file";
  if (!std::filesystem::is_regular_file(status)) return "this is not a regular file";
  std::ifstream file(path, std::ios::binary);
  if (!file) return "the file cannot be read";
  text.resize(kLengthBytesMax + 1);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kLengthBytesMax) return fmt::format("the file has more than {}", bytes_text(kLengthBytesMax));
  return "";
}

std::optional<int> parse_length(const std::string& line) {
  int length = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), length);
  if (error != std::errc() || end != line.data() + line.size() || length < 1 || length > kLengthMax) {
    return std::nullopt;
  }
  return length;
}

// Fills in the lengths, or returns what is wrong.
std::string parse_lengths(const std::string& text, std::vector<int>& lengths) {
  std::istringstream lines(text);
  std::string first;
  int line_number = 0, faults = 0;
  for (std::string line; std::getline(lines, line);) {
    ++line_number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (line.empty()) continue;
    if (const auto length = parse_length(line)) {
      lengths.push_back(*length);
    } else if (++faults == 1) {
      first = fmt::format("line {} is '{}'", line_number, shown(line));
    }
  }
  if (faults > 1) first += fmt::format(", and {} more are no lengths either", faults - 1);
  return faults == 0 && lengths.empty() ? "the file is empty" : first;
}

}  // namespace

LengthFile read_length_file(const std::string& path) {
  LengthFile file;
  std::string text;
  file.problem = read_bounded(path, text);
  if (file.problem.empty()) file.problem = parse_lengths(text, file.lengths);
  if (!file.problem.empty()) {
    file.problem = fmt::format("the lengths in '{}': {}", shown(path, kShownPathMax), file.problem);
    file.fix = fmt::format("give a readable text file with one length in tokens per line, each of 1 to {}", kLengthMax);
  }
  return file;
}

}  // namespace mrb
