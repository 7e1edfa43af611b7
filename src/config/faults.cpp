#include "config/faults.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

namespace mrb {

namespace {

constexpr std::size_t kShownFaults = 50;
constexpr std::size_t kShownCharacters = 60;

}  // namespace

void Faults::add(std::string where, std::string problem, std::string fix) {
  const auto same = [&](const Fault& fault) { return fault.where == where && fault.problem == problem; };
  if (std::none_of(faults_.begin(), faults_.end(), same)) {
    faults_.push_back({std::move(where), std::move(problem), std::move(fix)});
  }
}

void Faults::report() const {
  if (faults_.empty()) return;
  if (faults_.size() == 1) {
    const Fault& fault = faults_.front();
    throw Error(ErrorKind::config, fmt::format("{}: {}", fault.where, fault.problem), fault.fix);
  }
  std::string text = fmt::format("{} faults in the configuration", faults_.size());
  for (std::size_t i = 0; i < std::min(faults_.size(), kShownFaults); ++i) {
    text += fmt::format("\n{}: {}\n  fix: {}", faults_[i].where, faults_[i].problem, faults_[i].fix);
  }
  if (faults_.size() > kShownFaults) text += fmt::format("\n... and {} more", faults_.size() - kShownFaults);
  throw Error::as_received(ErrorKind::config, text);
}

std::string shown(const std::string& text) {
  std::string clean;
  for (const char c : text.substr(0, kShownCharacters)) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    clean += control ? '?' : c;
  }
  return text.size() > kShownCharacters ? clean + "..." : clean;
}

}  // namespace mrb
