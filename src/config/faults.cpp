#include "config/faults.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace mrb {

namespace {

constexpr std::size_t kFaultsMax = 1000;
constexpr std::size_t kShownFaults = 50;

// How many bytes the character at the start of `text` has in UTF-8; 0 when it is broken or a control character.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) < 0x20 || byte(0) == 0x7f ? 0 : 1;
  const std::size_t bytes = byte(0) < 0xc2 ? 0 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : byte(0) < 0xf5 ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  const bool is_c1_control = byte(0) == 0xc2 && byte(1) < 0xa0;
  const bool is_overlong = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool is_no_character = (byte(0) == 0xed && byte(1) > 0x9f) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return is_c1_control || is_overlong || is_no_character ? 0 : bytes;
}

}  // namespace

void Faults::add(std::string where, std::string problem, std::string fix) {
  const auto same = [&](const Fault& fault) { return fault.where == where && fault.problem == problem; };
  if (std::none_of(faults_.begin(), faults_.end(), same)) {
    faults_.push_back({std::move(where), std::move(problem), std::move(fix)});
  }
  if (faults_.size() >= kFaultsMax) report();
}

void Faults::report() const {
  if (faults_.empty()) return;
  if (faults_.size() == 1) {
    const Fault& fault = faults_.front();
    throw Error(ErrorKind::config, fmt::format("{}: {}", fault.where, fault.problem), fault.fix);
  }
  std::string text =
      fmt::format("{}{} faults in the configuration", faults_.size(), faults_.size() >= kFaultsMax ? " or more" : "");
  for (std::size_t i = 0; i < std::min(faults_.size(), kShownFaults); ++i) {
    text += fmt::format("\n{}: {}\n  fix: {}", faults_[i].where, faults_[i].problem, faults_[i].fix);
  }
  if (faults_.size() > kShownFaults) text += fmt::format("\n... and {} more", faults_.size() - kShownFaults);
  throw Error::as_received(ErrorKind::config, text);
}

std::string shown(const std::string& text, std::size_t bytes_max) {
  std::string clean;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = character_bytes(std::string_view(text).substr(i));
    if (clean.size() + std::max<std::size_t>(bytes, 1) > bytes_max) return clean + "...";
    clean += bytes == 0 ? "?" : text.substr(i, bytes);
    i += std::max<std::size_t>(bytes, 1);
  }
  return clean;
}

bool is_printable(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = character_bytes(text.substr(i));
    if (bytes == 0) return false;
    i += bytes;
  }
  return true;
}

}  // namespace mrb
