#include "bench/traffic_meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "base/units.hpp"
#include "cluster/machine.hpp"

namespace mrb {

namespace {

// Counters hold headers too, so they are never below what was sent; some are read a little later than others.
constexpr double kSeenRatio = 0.95;

}  // namespace

std::vector<std::string> hosts_of(Bootstrap& bootstrap) {
  const std::string mine = read_machine().host;
  std::vector<std::string> hosts;
  for (const auto& host : bootstrap.all_gather(std::as_bytes(std::span(mine)))) {
    hosts.emplace_back(reinterpret_cast<const char*>(host.data()), host.size());
  }
  return hosts;
}

TrafficMeter::TrafficMeter(Bootstrap& bootstrap, const TransportCapabilities& capabilities, std::vector<Part> parts)
    : bootstrap_(bootstrap), provider_(capabilities.provider), parts_(std::move(parts)), hosts_(hosts_of(bootstrap)) {
  for (const Part& part : parts_) part.channel.reset_traffic();
  one_host_ = std::all_of(hosts_.begin(), hosts_.end(), [&](const auto& host) { return host == hosts_.front(); });
  before_ = read();
  bootstrap.barrier();  // nobody sends before all have read
}

NicCounters TrafficMeter::read() const {
  return read_nic_counters(provider_, one_host_);
}

TrafficSample TrafficMeter::stop() {
  const auto ranks = static_cast<std::size_t>(bootstrap_.size());
  const auto me = static_cast<std::size_t>(bootstrap_.rank());
  const NicCounters after = read();
  // Only sockets lead to ranks of the same host.
  const bool counts_all = one_host_ && provider_.find("tcp") != std::string::npos;
  // For rank 0: NIC bytes, handed bytes, and how late each rank was.
  std::vector<std::uint64_t> mine(2 + ranks);
  mine[0] = after.sent_bytes - before_.sent_bytes;
  for (const Part& part : parts_) {
    const Channel::Traffic& traffic = part.channel.traffic();
    for (std::size_t i = 0; i < part.ranks.size(); ++i) {
      const auto peer = static_cast<std::size_t>(part.ranks[i]);
      if (counts_all || hosts_[peer] != hosts_[me]) mine[1] += traffic.bytes_to[i];
      mine[2 + peer] += static_cast<std::uint64_t>(traffic.late_ns[i]);
    }
  }
  const auto all = bootstrap_.all_gather(std::as_bytes(std::span(mine)));

  TrafficSample sample{.nic_source = after.source, .late_ns = std::vector<std::int64_t>(ranks)};
  std::map<std::string, std::uint64_t> nic_bytes;  // of each host: its ranks all read the same counters
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::memcpy(mine.data(), all[rank].data(), all[rank].size());
    nic_bytes[hosts_[rank]] = std::max(nic_bytes[hosts_[rank]], mine[0]);
    sample.handed_bytes += mine[1];
    for (std::size_t peer = 0; peer < ranks; ++peer) sample.late_ns[peer] += static_cast<std::int64_t>(mine[2 + peer]);
  }
  for (const auto& [host, bytes] : nic_bytes) sample.nic_bytes += bytes;
  return sample;
}

std::string efa_doubt(const LaunchSample& launch) {
  const TrafficSample& traffic = launch.traffic;
  const bool is_efa = launch.provider.find("efa") != std::string::npos;
  if (!is_efa || static_cast<double>(traffic.nic_bytes) >= kSeenRatio * static_cast<double>(traffic.handed_bytes))
    return "";
  return fmt::format("{} went to other hosts, and EFA devices counted {} ({})", bytes_text(traffic.handed_bytes),
                     bytes_text(traffic.nic_bytes),
                     traffic.nic_source.empty() ? "there are no counters" : traffic.nic_source);
}

}  // namespace mrb
