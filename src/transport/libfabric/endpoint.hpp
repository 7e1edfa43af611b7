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

// What find_libfabric_domains() found, opened.
LibfabricDomain open_libfabric_domain(LibfabricInfo);

// Places in a completion queue.
struct QueuePlaces {
  std::size_t wished = 0;
  std::size_t least = 0;
};

// An endpoint with its completion queue and its table of peers.
class LibfabricEndpoint {
 public:
  // Takes half as many places, and half of that, until the provider has so many. Throws Error(environment) when it
  // has not even the least.
  LibfabricEndpoint(const LibfabricDomain&, std::size_t rank_count, QueuePlaces);

  std::size_t queue_places() const { return queue_places_; }

  // What a peer needs to reach this endpoint.
  std::vector<std::byte> address() const;

  // Local. Rank r's address becomes r in writes.
  void add_peers(std::span<const std::vector<std::byte>> addresses);

  fid_ep* endpoint() const { return endpoint_.get(); }
  fid_cq* queue() const { return queue_.get(); }
  fi_addr_t peer(int rank) const { return peers_.at(static_cast<std::size_t>(rank)); }

 private:
  std::size_t queue_places_ = 0;
  // Destroyed from the last to the first: the endpoint before what it is bound to.
  LibfabricObject<fid_cq> queue_;
  LibfabricObject<fid_av> table_;
  LibfabricObject<fid_ep> endpoint_;
  std::vector<fi_addr_t> peers_;
};

}  // namespace mrb
