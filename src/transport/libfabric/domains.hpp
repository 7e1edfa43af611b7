// Which network interfaces a rank writes over.
#pragma once

#include <string>
#include <vector>

#include "cluster/bootstrap.hpp"
#include "transport/libfabric/endpoint.hpp"

namespace mrb {

// Collective. The domains of this rank, opened, in the order in which they meet those of other ranks: the first
// `rails` that the provider has here, or all for 0. For tcp between hosts that is one for each network interface, for
// efa one for each adapter, otherwise one.
//
// Throws Error(config) for a provider that is not known or that cannot reach all ranks, or when some rank has fewer
// than `rails`; Error(environment) when the machine has no such provider, listing those it has, or when for 0 ranks
// have different numbers.
std::vector<LibfabricDomain> open_libfabric_domains(Bootstrap&, const std::string& provider, int rails);

}  // namespace mrb
