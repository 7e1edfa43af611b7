#include "config/text_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/units.hpp"
#include "config/faults.hpp"

namespace mrb {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFileBytesMax = 256 << 10;  // a hundred times the longest of our own
constexpr std::size_t kWhereMax = 4200;           // the longest path that Linux takes, and a place in it

[[noreturn]] void refuse(const std::string& where, const std::string& problem, const std::string& fix) {
  throw Error(ErrorKind::config, fmt::format("{}: {}", shown(where, kWhereMax), problem), fix);
}

void check_kind(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    refuse(path, "there is no such file",
           "give the path of a YAML file, or make one: moe-rl-bench config init > my.yaml");
  }
  if (error) refuse(path, "the file cannot be looked at: " + error.message(), "check the path and its permissions");
  if (fs::is_directory(status)) refuse(path, "this is a directory", "give the path of a YAML file in it");
  if (!fs::is_regular_file(status)) refuse(path, "this is not a regular file", "give the path of a YAML file");
}

// One byte more than allowed, so that a file that is too long shows; its stated size may be wrong, as in /proc.
std::string read_bounded(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.fail() && !file.eof())) {
    refuse(path, fmt::format("the file cannot be read: {}", std::strerror(errno)), "check its permissions");
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

void check_characters(const std::string& path, const std::string& text) {
  int line = 1, column = 1;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7f) {
      refuse(fmt::format("{}:{}:{}", path, line, column),
             fmt::format("a control character (byte {}) stands here", byte), "give a YAML file, saved as UTF-8 text");
    }
    column = c == '\n' ? 1 : column + 1;
    line += c == '\n' ? 1 : 0;
  }
}

}  // namespace

std::string read_text_file(const std::string& path) {
  check_kind(path);
  const std::string text = read_bounded(path);
  if (text.size() > kFileBytesMax) {
    refuse(path, fmt::format("the file has more than {}", bytes_text(kFileBytesMax)),
           "give the path of a configuration: none needs that much");
  }
  check_characters(path, text);
  return text;
}

}  // namespace mrb
