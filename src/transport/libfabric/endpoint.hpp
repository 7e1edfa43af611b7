// What one rank opens of libfabric, and how it reaches its peers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cluster/libfabric_info.hpp"
#include "transport/libfabric/objects.hpp"

namespace mrb {

// The access to one network interface, from which regions are registered.
struct LibfabricDomain {
  LibfabricInfo info;
  LibfabricObject<fid_fabric> fabric;
  LibfabricObject<fid_domain> domain;
};

// Throws Error(environment) that lists the providers this machine has when `provider` is not one of them.
LibfabricDomain open_libfabric_domain(const std::string& provider, const std::string& source);

// An endpoint with its completion queue and its table of peers.
class LibfabricEndpoint {
 public:
  // Opens the endpoint for `rank_count` peers with at most `puts_max` own writes in flight.
  LibfabricEndpoint(const LibfabricDomain&, std::size_t rank_count, std::size_t puts_max);

  // What a peer needs to reach this endpoint.
  std::vector<std::byte> address() const;

  // Local. Rank r's address becomes r in writes.
  void add_peers(std::span<const std::vector<std::byte>> addresses);

  fid_ep* endpoint() const { return endpoint_.get(); }
  fid_cq* queue() const { return queue_.get(); }
  fi_addr_t peer(int rank) const { return peers_.at(static_cast<std::size_t>(rank)); }

 private:
  // Destroyed from the last to the first: the endpoint before what it is bound to.
  LibfabricObject<fid_cq> queue_;
  LibfabricObject<fid_av> table_;
  LibfabricObject<fid_ep> endpoint_;
  std::vector<fi_addr_t> peers_;
};

}  // namespace mrb
