// What a launch put on the network, as the transport was told and as the interfaces counted it, and which rank the others
// waited for.
#pragma once

#include <string>
#include <vector>

#include "bench/experiment.hpp"
#include "cluster/bootstrap.hpp"
#include "cluster/nic_counters.hpp"
#include "transport/channel.hpp"

namespace mrb {

// Collective. The host of every rank, as the machines call themselves.
std::vector<std::string> hosts_of(Bootstrap&);

// Made before a launch's steps, asked after them.
class TrafficMeter {
 public:
  // A channel of this rank, and the numbers among all ranks of those that it leads to.
  struct Part {
    Channel& channel;
    std::vector<int> ranks;
  };

  // Collective over all ranks. The channels must outlive it; they count anew from here.
  TrafficMeter(Bootstrap&, const TransportCapabilities&, std::vector<Part>);

  // Collective over all ranks, once all puts have arrived. Complete on rank 0.
  TrafficSample stop();

 private:
  NicCounters read() const;

  Bootstrap& bootstrap_;
  std::string provider_;
  std::vector<Part> parts_;
  std::vector<std::string> hosts_;
  bool one_host_;
  NicCounters before_;
};

// Why the numbers of a launch are not those of EFA: its counters miss more than 5% of the bytes that went to other
// hosts. Empty when nothing speaks against it.
std::string efa_doubt(const LaunchSample&);

}  // namespace mrb
