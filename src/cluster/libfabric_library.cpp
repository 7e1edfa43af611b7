#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cluster/libfabric_info.hpp"
#include "cluster/machine.hpp"

namespace mrb {

LibraryLine describe_libfabric_library() {
  const auto usable = usable_libfabric_providers();
  return {.name = "libfabric",
          .built_with = fmt::format("{}.{}", FI_MAJOR_VERSION, FI_MINOR_VERSION),
          .loaded = fmt::format("{}; providers here: {}", libfabric_version(),
                                usable.empty() ? "none" : fmt::format("{}", fmt::join(usable, ", "))),
          .needs = ""};
}

}  // namespace mrb
