// Implementations by name. A name that this build left out is kept, so that the error says which option brings it
// back.
#pragma once

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace mrb {

// One implementation of an interface. `make` is null when this build lacks `needs`.
template <class Factory>
struct RegistryEntry {
  std::string_view name;
  Factory make;
  std::string_view needs;
};

// What `list` and error messages show of an entry.
struct RegistryLine {
  std::string name;
  std::string needs;  // the missing feature; empty when the entry is in this build
};

template <class Factory>
std::vector<RegistryLine> registry_lines(std::span<const RegistryEntry<Factory>> entries) {
  std::vector<RegistryLine> lines;
  for (const auto& entry : entries) {
    lines.push_back({std::string(entry.name), entry.make == nullptr ? std::string(entry.needs) : std::string()});
  }
  return lines;
}

// Finds `name`, or throws Error(config) that lists what this binary does have.
template <class Factory>
Factory find_factory(std::string_view family, std::string_view name, std::span<const RegistryEntry<Factory>> entries) {
  std::string available;
  for (const auto& entry : entries) {
    if (entry.name == name && entry.make != nullptr) return entry.make;
    if (entry.name == name) {
      throw Error(ErrorKind::config, fmt::format("{} '{}' was left out of this build", family, name),
                  fmt::format("configure with -DMRB_WITH_{}=ON and build again", entry.needs));
    }
    if (entry.make != nullptr) available += (available.empty() ? "" : ", ") + std::string(entry.name);
  }
  throw Error(ErrorKind::config, fmt::format("there is no {} called '{}'", family, name), "use one of: " + available);
}

}  // namespace mrb
