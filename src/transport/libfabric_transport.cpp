// Puts as libfabric's one-sided writes with data: the provider writes into the peer's region and then reports
// the immediate in the peer's completion queue.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "cluster/agree.hpp"
#include "cluster/libfabric_info.hpp"
#include "transport/bounds.hpp"
#include "transport/libfabric/endpoint.hpp"
#include "transport/libfabric/host.hpp"
#include "transport/libfabric/region_addressing.hpp"
#include "transport/libfabric/shm_files.hpp"
#include "transport/transport.hpp"

namespace mrb {

namespace {

// Own writes in flight over all peers, at most. Enough to fill a network with pieces of 64 KiB, and it bounds
// the completion queues of the peers.
constexpr std::size_t kPutsMax = 256;
// EFA writes at most about this much at once.
constexpr std::size_t kPutBytesMax = std::size_t{1} << 30;
constexpr std::size_t kEventsPerPoll = 64;

// A write that came in has one of these or both: shm of libfabric 2 gives the second alone.
constexpr std::uint64_t kArrivalFlags = FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;

// One write in flight. Providers may use `context` for themselves until the write completes.
struct Operation {
  fi_context2 context;
  int peer = 0;
};

// What a rank tells the others of its piece of a region.
struct RegionAddress {
  std::uint64_t base = 0;
  std::uint64_t key = 0;
  std::uint64_t bytes = 0;
};

struct Region {
  std::span<std::byte> mine;
  LibfabricObject<fid_mr> registration;
  std::vector<RegionAddress> addresses;  // by rank
};

void require_known(const std::string& provider) {
  const auto& known = known_libfabric_providers();
  if (std::find(known.begin(), known.end(), provider) != known.end()) return;
  throw Error(ErrorKind::config,
              provider.empty() ? std::string("transport 'libfabric' needs a provider")
                               : fmt::format("there is no libfabric provider called '{}'", provider),
              fmt::format("set transport.provider to one of: {}", fmt::join(known, ", ")));
}

// Collective. True when all ranks are on one host.
bool share_a_host(Bootstrap& bootstrap) {
  const std::string mine = host_identity();
  const auto all = bootstrap.all_gather(std::as_bytes(std::span(mine)));
  return std::all_of(all.begin(), all.end(), [&](const auto& theirs) { return theirs == all.front(); });
}

std::string source_for(const std::string& provider, bool one_host) {
  if (provider == "tcp") return tcp_source_address(one_host);
  if (provider == "shm") return next_shm_endpoint_name();
  return "";
}

class Libfabric final : public Transport {
 public:
  Libfabric(Bootstrap& bootstrap, const std::string& provider);

  const TransportCapabilities& capabilities() const override { return capabilities_; }
  RegionId expose(std::span<std::byte> memory) override;
  void withdraw(RegionId region) override;
  bool try_put(const Put& put) override;
  void poll(std::vector<std::uint32_t>& arrived) override;
  std::size_t pending_puts() const override { return operations_.size() - free_operations_.size(); }

 private:
  void open(const std::string& provider, bool one_host);
  LibfabricObject<fid_mr> register_memory(std::span<std::byte> memory);
  bool is_own(const void* context) const {
    return context >= operations_.data() && context < operations_.data() + operations_.size();
  }
  Operation* own_operation(const fi_cq_data_entry&);
  [[noreturn]] void throw_queue_error();

  Bootstrap& bootstrap_;
  TransportCapabilities capabilities_;
  // Destroyed from the last to the first: the endpoint, then the regions, then the domain.
  LibfabricDomain domain_;
  RegionAddressing addressing_;
  std::vector<Region> regions_;
  std::vector<Operation> operations_;
  std::vector<Operation*> free_operations_;
  std::optional<LibfabricEndpoint> endpoint_;
};

Libfabric::Libfabric(Bootstrap& bootstrap, const std::string& provider) : bootstrap_(bootstrap) {
  require_known(provider);
  const bool one_host = share_a_host(bootstrap);
  if (provider == "shm" && !one_host) {
    throw Error(ErrorKind::config, "provider 'shm' reaches only ranks that share /dev/shm, and these ranks do not",
                "use transport.provider: tcp or efa");
  }
  run_on_all(bootstrap, [&] { open(provider, one_host); });
  const auto addresses = bootstrap.all_gather(endpoint_->address());
  // Nobody writes before its target knows it: EFA takes no writes from strangers.
  run_on_all(bootstrap, [&] { endpoint_->add_peers(addresses); });
}

void Libfabric::open(const std::string& provider, bool one_host) {
  if (provider == "shm") remove_stale_shm_files();
  domain_ = open_libfabric_domain(provider, source_for(provider, one_host));
  const fi_info& info = *domain_.info;
  addressing_ = RegionAddressing::from_mr_mode(static_cast<std::uint64_t>(info.domain_attr->mr_mode));
  if (info.domain_attr->cq_data_size < sizeof(Put::immediate)) {
    throw Error(ErrorKind::environment,
                fmt::format("provider '{}' carries {} bytes with a write, and {} are needed",
                            info.fabric_attr->prov_name, info.domain_attr->cq_data_size, sizeof(Put::immediate)),
                "use another provider or version of libfabric");
  }
  capabilities_.name = "libfabric";
  capabilities_.provider = info.fabric_attr->prov_name;
  if (provider == "efa") capabilities_.provider += fmt::format(", fabric {}", info.fabric_attr->name);
  capabilities_.loaded_library = fmt::format("libfabric {}", libfabric_version());
  capabilities_.put_bytes_max = std::min(kPutBytesMax, info.ep_attr->max_msg_size);

  operations_ = std::vector<Operation>(std::min(kPutsMax, info.tx_attr->size));
  for (Operation& operation : operations_) free_operations_.push_back(&operation);
  endpoint_.emplace(domain_, static_cast<std::size_t>(bootstrap_.size()), operations_.size());
}

LibfabricObject<fid_mr> Libfabric::register_memory(std::span<std::byte> memory) {
  fid_mr* registration = nullptr;
  const int code = fi_mr_reg(domain_.domain.get(), memory.data(), memory.size(), FI_WRITE | FI_REMOTE_WRITE, 0,
                             addressing_.requested_key(regions_.size()), 0, &registration, nullptr);
  if (code != 0) {
    throw Error(ErrorKind::environment,
                fmt::format("fi_mr_reg of {} bytes failed with code {}: {}", memory.size(), code, fi_strerror(-code)),
                "check the limit of locked memory (ulimit -l) and the memory limit of the container");
  }
  return LibfabricObject<fid_mr>(registration);
}

RegionId Libfabric::expose(std::span<std::byte> memory) {
  Region region{memory, nullptr, {}};
  run_on_all(bootstrap_, [&] {
    if (!memory.empty()) region.registration = register_memory(memory);
  });
  const RegionAddress mine{reinterpret_cast<std::uint64_t>(memory.data()),
                           region.registration ? fi_mr_key(region.registration.get()) : 0, memory.size()};
  for (const auto& theirs : bootstrap_.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    std::memcpy(&region.addresses.emplace_back(), theirs.data(), sizeof mine);
  }
  regions_.push_back(std::move(region));
  return static_cast<RegionId>(regions_.size() - 1);
}

void Libfabric::withdraw(RegionId region) {
  regions_.at(region).registration.reset();
  regions_.at(region).mine = {};
}

bool Libfabric::try_put(const Put& put) {
  const Region& source = regions_.at(put.source_region);
  require_inside("source", put.source_region, source.mine.size(), put.source_offset_bytes, put.bytes);
  const RegionAddress& target = regions_.at(put.target_region).addresses.at(static_cast<std::size_t>(put.peer));
  require_inside("target", put.target_region, target.bytes, put.target_offset_bytes, put.bytes);
  if (free_operations_.empty()) return false;

  Operation& operation = *free_operations_.back();
  operation.peer = put.peer;
  void* descriptor = addressing_.local_descriptor ? fi_mr_desc(source.registration.get()) : nullptr;
  const auto code =
      fi_writedata(endpoint_->endpoint(), source.mine.data() + put.source_offset_bytes, put.bytes, descriptor,
                   put.immediate, endpoint_->peer(put.peer),
                   addressing_.remote_address(target.base, put.target_offset_bytes), target.key, &operation.context);
  if (code == -FI_EAGAIN) return false;
  libfabric_call(code, fmt::format("fi_writedata of {} bytes to rank {}", put.bytes, put.peer));
  free_operations_.pop_back();
  return true;
}

void Libfabric::poll(std::vector<std::uint32_t>& arrived) {
  std::array<fi_cq_data_entry, kEventsPerPoll> events;
  const auto count = fi_cq_read(endpoint_->queue(), events.data(), events.size());
  if (count == -FI_EAGAIN) return;
  if (count == -FI_EAVAIL) throw_queue_error();
  libfabric_call(count, "fi_cq_read");
  for (const fi_cq_data_entry& event : std::span(events).first(static_cast<std::size_t>(count))) {
    if ((event.flags & kArrivalFlags) != 0) {
      arrived.push_back(static_cast<std::uint32_t>(event.data));
    } else {
      free_operations_.push_back(own_operation(event));
    }
  }
}

Operation* Libfabric::own_operation(const fi_cq_data_entry& event) {
  if (is_own(event.op_context)) return static_cast<Operation*>(event.op_context);
  throw Error(ErrorKind::internal,
              fmt::format("provider '{}' completed something that is neither a put of this rank nor one to it: flags "
                          "{:#x}, context {}",
                          capabilities_.provider, event.flags, event.op_context),
              "report this with the version of libfabric, or use transport: mpi");
}

void Libfabric::throw_queue_error() {
  fi_cq_err_entry event = {};
  libfabric_call(fi_cq_readerr(endpoint_->queue(), &event, 0), "fi_cq_readerr");
  const char* words = fi_cq_strerror(endpoint_->queue(), event.prov_errno, event.err_data, nullptr, 0);
  const auto* operation = static_cast<const Operation*>(event.op_context);
  const bool is_own_put = is_own(operation);
  throw Error(ErrorKind::environment,
              fmt::format("{} failed: {} ({}); provider '{}' says {}: {}",
                          is_own_put ? fmt::format("a put to rank {}", operation->peer) : "receiving a put",
                          fi_strerror(event.err), event.err, capabilities_.provider, event.prov_errno,
                          words ? words : "nothing"),
              is_own_put ? fmt::format("look at rank {} first: it may have ended", operation->peer)
                         : "look for a rank that has ended");
}

}  // namespace

std::unique_ptr<Transport> make_libfabric_transport(Bootstrap& bootstrap, const TransportOptions& options) {
  return std::make_unique<Libfabric>(bootstrap, options.provider);
}

}  // namespace mrb
