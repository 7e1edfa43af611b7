// Puts as libfabric's one-sided writes with data: the provider writes into the peer's region and then reports
// the immediate in the peer's completion queue. Each network interface is a rail, and puts take the rails in turn; one
// that is to be striped comes as several puts, because nothing tells that the parts of one have all arrived.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "cluster/agree.hpp"
#include "cluster/libfabric_info.hpp"
#include "transport/bounds.hpp"
#include "transport/libfabric/domains.hpp"
#include "transport/libfabric/over_domains.hpp"
#include "transport/libfabric/rail.hpp"
#include "transport/progress_thread.hpp"
#include "transport/transport.hpp"

namespace mrb {

namespace {

// EFA writes at most about this much at once.
constexpr std::size_t kPutBytesMax = std::size_t{1} << 30;

class Libfabric final : public Transport {
 public:
  Libfabric(Bootstrap& bootstrap, std::vector<LibfabricDomain> domains);

  const TransportCapabilities& capabilities() const override { return capabilities_; }
  RegionId expose(std::span<std::byte> memory) override;
  void withdraw(RegionId region) override;
  bool try_put(const Put& put) override;
  void poll(std::vector<std::uint32_t>& arrived) override;
  std::size_t pending_puts() const override;
  std::string state() const override;

 private:
  // A rank's piece of a region, as others see it.
  struct Target {
    std::uint64_t base = 0;
    std::uint64_t bytes = 0;
    std::vector<std::uint64_t> keys;  // by rail
  };
  struct Region {
    std::span<std::byte> mine;
    std::vector<Target> targets;  // by rank
  };

  void describe();

  Bootstrap& bootstrap_;
  int rank_;
  TransportCapabilities capabilities_;
  std::vector<LibfabricRail> rails_;
  std::vector<Region> regions_;
  std::vector<std::size_t> turns_;  // by peer: the rail that its next put tries first
};

Libfabric::Libfabric(Bootstrap& bootstrap, std::vector<LibfabricDomain> domains)
    : bootstrap_(bootstrap), rank_(bootstrap.rank()), turns_(static_cast<std::size_t>(bootstrap.size())) {
  run_on_all(bootstrap, [&] {
    for (auto& domain : domains) rails_.emplace_back(std::move(domain), rank_, bootstrap.size());
  });
  describe();
  for (LibfabricRail& rail : rails_) {
    const auto introductions = bootstrap.all_gather(rail.introduction());
    // Nobody writes before its target knows it: EFA takes no writes from strangers.
    run_on_all(bootstrap, [&] { rail.meet(introductions); });
  }
}

void Libfabric::describe() {
  const fi_info& info = rails_.front().info();
  const std::string provider = info.fabric_attr->prov_name;
  capabilities_.name = "libfabric";
  capabilities_.provider = provider;
  if (provider == "efa") capabilities_.provider += fmt::format(", fabric {}", info.fabric_attr->name);
  if (rails_.size() > 1) capabilities_.provider += fmt::format(", {} rails", rails_.size());
  capabilities_.loaded_library = fmt::format("libfabric {}", libfabric_version());
  capabilities_.put_bytes_max = kPutBytesMax;
  for (const LibfabricRail& rail : rails_) {
    capabilities_.put_bytes_max = std::min(capabilities_.put_bytes_max, rail.info().ep_attr->max_msg_size);
  }
  capabilities_.rails = rails_.size();
}

RegionId Libfabric::expose(std::span<std::byte> memory) {
  const auto id = static_cast<RegionId>(regions_.size());
  std::vector<std::uint64_t> mine = {reinterpret_cast<std::uint64_t>(memory.data()), memory.size()};
  run_on_all(bootstrap_, [&] {
    for (LibfabricRail& rail : rails_) mine.push_back(rail.expose(id, memory));
  });
  Region region{memory, {}};
  for (const auto& theirs : bootstrap_.all_gather(std::as_bytes(std::span(mine)))) {
    std::vector<std::uint64_t> words(mine.size());
    std::memcpy(words.data(), theirs.data(), theirs.size());
    region.targets.push_back({words[0], words[1], {words.begin() + 2, words.end()}});
  }
  regions_.push_back(std::move(region));
  return id;
}

void Libfabric::withdraw(RegionId region) {
  regions_.at(region).mine = {};
  for (LibfabricRail& rail : rails_) rail.withdraw(region);
}

bool Libfabric::try_put(const Put& put) {
  const Region& source = regions_.at(put.source_region);
  require_inside("source", put.source_region, source.mine.size(), put.source_offset_bytes, put.bytes);
  const Target& target = regions_.at(put.target_region).targets.at(static_cast<std::size_t>(put.peer));
  require_inside("target", put.target_region, target.bytes, put.target_offset_bytes, put.bytes);
  require_immediate(put.immediate, rank_);
  std::size_t& turn = turns_[static_cast<std::size_t>(put.peer)];
  for (std::size_t tried = 0; tried < rails_.size(); ++tried) {
    const std::size_t rail = turn;
    turn = turn + 1 == rails_.size() ? 0 : turn + 1;
    if (rails_[rail].try_write({put.peer, put.source_region, source.mine.data() + put.source_offset_bytes, put.bytes,
                                target.base, put.target_offset_bytes, target.keys[rail], put.immediate})) {
      return true;
    }
  }
  return false;
}

void Libfabric::poll(std::vector<std::uint32_t>& arrived) {
  for (LibfabricRail& rail : rails_) rail.poll(arrived);
}

std::size_t Libfabric::pending_puts() const {
  std::size_t pending = 0;
  for (const LibfabricRail& rail : rails_) pending += rail.pending_writes();
  return pending;
}

std::string Libfabric::state() const {
  std::string text;
  for (std::size_t rail = 0; rail < rails_.size(); ++rail) {
    text += fmt::format("{}rail {}, {}", rail == 0 ? "" : "; ", rail, rails_[rail].state());
  }
  return text;
}

}  // namespace

std::unique_ptr<Transport> make_libfabric_transport_over(Bootstrap& bootstrap, std::vector<LibfabricDomain> domains) {
  return std::make_unique<Libfabric>(bootstrap, std::move(domains));
}

std::unique_ptr<Transport> make_libfabric_transport(Bootstrap& bootstrap, const TransportOptions& options) {
  auto transport =
      make_libfabric_transport_over(bootstrap, open_libfabric_domains(bootstrap, options.provider, options.rails));
  if (options.progress == "thread") return with_progress_thread(std::move(transport));
  return transport;
}

}  // namespace mrb
