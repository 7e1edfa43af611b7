// Every pair of nodes, briefly: latency, bandwidth each way, and the largest datagram that passes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/bootstrap.hpp"
#include "cluster/nic_counters.hpp"
#include "doctor/diagnosis.hpp"
#include "transport/transport.hpp"

namespace mrb {

// From one node to another, measured by the first rank of each.
struct NetworkPair {
  int from = 0, to = 0;                                        // places in NetworkRecord::hosts
  double latency_us = 0;                                       // median of half a round trip of 8 bytes
  double put_gbyte_per_s = 0;                                  // puts of 256 KiB, the best window of several
  std::int64_t interface_mtu = kUnknown, path_mtu = kUnknown;  // see PathMtu
  std::string failure;                                         // why there is no number
};

// What a node has sent, by three counts.
struct NodeTraffic {
  std::string host;
  std::uint64_t put_bytes = 0;     // as handed to the transport
  std::uint64_t nic_bytes = 0;     // by the counters of what should carry them
  std::uint64_t socket_bytes = 0;  // by the counters of interfaces that carry TCP
  std::string nic_source;          // which counters those are; empty: there are none
};

struct NetworkRecord {
  std::vector<std::string> hosts;
  std::string transport, provider;
  std::vector<NetworkPair> pairs;  // both ways
  std::vector<NodeTraffic> traffic;
};

struct NetworkOptions {
  std::string transport;
  TransportOptions transport_options;
  double pair_timeout_s = 10;  // for each thing that a pair waits for
};

// Collective, on every rank the same record. A pair that does not answer is recorded with why; a rank that does not come
// to the next meeting is Error(timeout).
NetworkRecord measure_network(Bootstrap&, const std::vector<Facts>& by_rank, const NetworkOptions&);

// Pure. Which nodes are slow, which pairs do not answer, which datagrams are lost, and whether the bytes went over EFA when
// that is what carried them: counters are the only proof, logs are not.
std::vector<Finding> judge_network(const NetworkRecord&);

}  // namespace mrb
