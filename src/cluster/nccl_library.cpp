#include <fmt/format.h>
#include <nccl.h>

#include <string>

#include "cluster/machine.hpp"

namespace mrb {

namespace {

// NCCL packs 2.27.3 as 22703, and did 2.8.3 as 2803 up to 2.8.
std::string version_text(int packed) {
  const int unit = packed < 10000 ? 1000 : 10000;
  return fmt::format("{}.{}.{}", packed / unit, packed % unit / 100, packed % 100);
}

}  // namespace

LibraryLine describe_nccl_library() {
  int loaded = 0;
  const ncclResult_t code = ncclGetVersion(&loaded);
  return {.name = "nccl",
          .built_with = version_text(NCCL_VERSION_CODE),
          .loaded = code == ncclSuccess ? version_text(loaded) : ncclGetErrorString(code),
          .needs = ""};
}

}  // namespace mrb
