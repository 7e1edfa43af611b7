#include "base/registry.hpp"
#include "cluster/machine.hpp"

namespace mrb {

using LibraryDescriber = LibraryLine (*)();

#define MRB_BACKEND(name) LibraryLine describe_##name##_library();
#define MRB_MISSING(name, needs)
#include "library_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING

static constexpr RegistryEntry<LibraryDescriber> kLibraries[] = {
#define MRB_BACKEND(name) {#name, describe_##name##_library, ""},
#define MRB_MISSING(name, needs) {#name, nullptr, needs},
#include "library_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING
};

std::vector<LibraryLine> library_lines() {
  std::vector<LibraryLine> lines;
  for (const auto& library : kLibraries) {
    lines.push_back(library.make != nullptr
                        ? library.make()
                        : LibraryLine{std::string(library.name), "", "", std::string(library.needs)});
  }
  return lines;
}

}  // namespace mrb
