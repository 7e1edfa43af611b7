#include "transport/libfabric/region_addressing.hpp"

#include <fmt/format.h>
#include <rdma/fi_domain.h>

#include "base/error.hpp"

namespace mrb {

RegionAddressing RegionAddressing::from_mr_mode(std::uint64_t mr_mode) {
  constexpr std::uint64_t kKnown = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_LOCAL | FI_MR_ALLOCATED;
  if ((mr_mode & ~kKnown) != 0) {
    throw Error(ErrorKind::environment,
                fmt::format("the provider demands memory registration of mode {:#x}, of which {:#x} is not known here",
                            mr_mode, mr_mode & ~kKnown),
                "use another provider or version of libfabric");
  }
  return {.by_address = (mr_mode & FI_MR_VIRT_ADDR) != 0,
          .provider_keys = (mr_mode & FI_MR_PROV_KEY) != 0,
          .local_descriptor = (mr_mode & FI_MR_LOCAL) != 0,
          .backed_by_pages = (mr_mode & FI_MR_ALLOCATED) != 0};
}

}  // namespace mrb
