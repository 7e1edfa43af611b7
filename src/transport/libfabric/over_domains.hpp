// The libfabric transport over domains that were opened elsewhere: its tests open those of a provider of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cluster/bootstrap.hpp"
#include "transport/libfabric/endpoint.hpp"
#include "transport/transport.hpp"

namespace mrb {

// Collective. As many domains on each rank, and at least one; the i-th of a rank writes to the i-th of its peers.
std::unique_ptr<Transport> make_libfabric_transport_over(Bootstrap&, std::vector<LibfabricDomain>);

}  // namespace mrb
