#include "transport/libfabric/region_addressing.hpp"

#include <rdma/fi_domain.h>

#include "support/catch.hpp"

using namespace mrb;

// tcp asks for none of the four and shm for VIRT_ADDR alone, so no run on a laptop covers what EFA asks for.
TEST_CASE("each way to register memory is taken as it comes back", "[transport]") {
  for (int bits = 0; bits < 16; ++bits) {
    const bool virt_addr = (bits & 1) != 0;
    const bool prov_key = (bits & 2) != 0;
    const bool local = (bits & 4) != 0;
    const bool allocated = (bits & 8) != 0;
    const auto addressing =
        RegionAddressing::from_mr_mode((virt_addr ? FI_MR_VIRT_ADDR : 0) | (prov_key ? FI_MR_PROV_KEY : 0) |
                                       (local ? FI_MR_LOCAL : 0) | (allocated ? FI_MR_ALLOCATED : 0));
    INFO("bits " << bits);
    CHECK(addressing == RegionAddressing{virt_addr, prov_key, local, allocated});
    CHECK(addressing.remote_address(0x7000, 0x10) == (virt_addr ? 0x7010u : 0x10u));
    CHECK(addressing.requested_key(9) == (prov_key ? 0u : 9u));
  }
}

TEST_CASE("a way to register memory that is not known is refused", "[transport]") {
  CHECK_THROWS_WITH(RegionAddressing::from_mr_mode(FI_MR_VIRT_ADDR | FI_MR_ENDPOINT),
                    test::contains("is not known here") && test::contains("fix: use another provider"));
}
