#include "transport/libfabric/endpoint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "base/error.hpp"

namespace mrb {

namespace {

[[noreturn]] void refuse_provider(const std::string& provider) {
  const auto usable = usable_libfabric_providers();
  // libfabric itself hides all others when this variable is set.
  const char* filter = std::getenv("FI_PROVIDER");
  const std::string why = filter ? fmt::format(", with FI_PROVIDER={}", filter) : "";
  throw Error(ErrorKind::environment,
              fmt::format("libfabric {} offers no provider '{}' on this machine{}; it offers: {}", libfabric_version(),
                          provider, why, usable.empty() ? "none" : fmt::format("{}", fmt::join(usable, ", "))),
              filter ? "unset FI_PROVIDER, or use transport.provider: one of those"
                     : "use transport.provider: one of those, or a machine that has it");
}

}  // namespace

LibfabricDomain open_libfabric_domain(const std::string& provider, const std::string& source) {
  LibfabricDomain opened;
  opened.info = find_libfabric(provider, source);
  if (!opened.info) refuse_provider(provider);
  fid_fabric* fabric = nullptr;
  libfabric_call(fi_fabric(opened.info->fabric_attr, &fabric, nullptr), "fi_fabric");
  opened.fabric.reset(fabric);
  fid_domain* domain = nullptr;
  libfabric_call(fi_domain(fabric, opened.info.get(), &domain, nullptr), "fi_domain");
  opened.domain.reset(domain);
  return opened;
}

LibfabricEndpoint::LibfabricEndpoint(const LibfabricDomain& from, std::size_t rank_count, std::size_t puts_max) {
  // Each arrival takes a place in the target's queue, and some providers do not notice when it overflows.
  fi_cq_attr queue_options = {};
  queue_options.size = rank_count * puts_max;
  queue_options.format = FI_CQ_FORMAT_DATA;
  queue_options.wait_obj = FI_WAIT_NONE;
  fid_cq* queue = nullptr;
  libfabric_call(fi_cq_open(from.domain.get(), &queue_options, &queue, nullptr), "fi_cq_open");
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
