#include "transport/libfabric/endpoint.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "base/error.hpp"

namespace mrb {

LibfabricDomain open_libfabric_domain(LibfabricInfo info) {
  LibfabricDomain opened;
  opened.info = std::move(info);
  fid_fabric* fabric = nullptr;
  libfabric_call(fi_fabric(opened.info->fabric_attr, &fabric, nullptr), "fi_fabric");
  opened.fabric.reset(fabric);
  fid_domain* domain = nullptr;
  libfabric_call(fi_domain(fabric, opened.info.get(), &domain, nullptr), "fi_domain");
  opened.domain.reset(domain);
  return opened;
}

LibfabricEndpoint::LibfabricEndpoint(const LibfabricDomain& from, std::size_t rank_count, QueuePlaces places) {
  fid_cq* queue = nullptr;
  for (queue_places_ = places.wished;; queue_places_ = std::max(queue_places_ / 2, places.least)) {
    fi_cq_attr queue_options = {};
    queue_options.size = queue_places_;
    queue_options.format = FI_CQ_FORMAT_DATA;
    queue_options.wait_obj = FI_WAIT_NONE;
    const int code = fi_cq_open(from.domain.get(), &queue_options, &queue, nullptr);
    if (code == 0) break;
    if (queue_places_ > places.least) continue;
    throw Error(ErrorKind::environment,
                fmt::format("provider '{}' has no completion queue of {} places, which {} ranks need at least: "
                            "fi_cq_open says {}",
                            from.info->fabric_attr->prov_name, places.least, rank_count, fi_strerror(-code)),
                "use fewer ranks, or another provider");
  }
  queue_.reset(queue);

  fi_av_attr table_options = {};
  table_options.type = FI_AV_TABLE;
  table_options.count = rank_count;
  fid_av* table = nullptr;
  libfabric_call(fi_av_open(from.domain.get(), &table_options, &table, nullptr), "fi_av_open");
  table_.reset(table);

  fid_ep* endpoint = nullptr;
  libfabric_call(fi_endpoint(from.domain.get(), from.info.get(), &endpoint, nullptr), "fi_endpoint");
  endpoint_.reset(endpoint);
  libfabric_call(fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind of the queue");
  libfabric_call(fi_ep_bind(endpoint, &table->fid, 0), "fi_ep_bind of the address table");
  libfabric_call(fi_enable(endpoint), "fi_enable");
}

std::vector<std::byte> LibfabricEndpoint::address() const {
  std::vector<std::byte> address(256);
  std::size_t length = address.size();
  libfabric_call(fi_getname(&endpoint_->fid, address.data(), &length), "fi_getname");
  address.resize(length);
  return address;
}

void LibfabricEndpoint::add_peers(std::span<const std::vector<std::byte>> addresses) {
  for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
    fi_addr_t peer = FI_ADDR_UNSPEC;
    const int inserted = fi_av_insert(table_.get(), addresses[rank].data(), 1, &peer, 0, nullptr);
    if (inserted != 1) {
      throw Error(ErrorKind::environment,
                  fmt::format("fi_av_insert did not take the address of rank {}: it returned {}", rank, inserted),
                  fmt::format("check that rank {} uses the same provider and network", rank));
    }
    peers_.push_back(peer);
  }
}

}  // namespace mrb
