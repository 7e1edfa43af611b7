#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/units.hpp"
#include "doctor/network.hpp"

namespace mrb {

namespace {

// A node is an outlier when even its best pair is so much worse than the usual pair of others: pairs of healthy nodes of
// one placement differ by far less, and a healthy node is never blamed for its slow partner, since it has others.
constexpr double kBandwidthRatio = 0.7, kLatencyRatio = 1.5;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct BestAndUsual {
  double best = 0, usual = 0;
};

// The best value of the pairs that `is_of` one node, and the median of the pairs in which the node has no part. Nothing
// when there are no such pairs: with two nodes neither can be told from the other.
std::optional<BestAndUsual> best_and_usual(const NetworkRecord& record, int node, bool larger_is_better,
                                           const std::function<bool(const NetworkPair&)>& is_of,
                                           const std::function<double(const NetworkPair&)>& value) {
  std::vector<double> own, others;
  for (const NetworkPair& pair : record.pairs) {
    if (!pair.failure.empty()) continue;
    if (is_of(pair)) own.push_back(value(pair));
    if (pair.from != node && pair.to != node) others.push_back(value(pair));
  }
  if (own.empty() || others.empty()) return std::nullopt;
  const auto [least, most] = std::minmax_element(own.begin(), own.end());
  return BestAndUsual{larger_is_better ? *most : *least, median(others)};
}

Finding of_hosts(const char* id, Severity severity, std::string problem, std::vector<std::string> hosts,
                 const char* why, const char* fix) {
  return {.id = id,
          .scope = Scope::node,
          .severity = severity,
          .problem = std::move(problem),
          .reads = "measured between nodes",
          .why = why,
          .fix = fix,
          .ranks = {},
          .hosts = std::move(hosts)};
}

constexpr const char* kReplace = "replace the node, or look for another job and for limits on its interface";

void add_slow_nodes(const NetworkRecord& record, std::vector<Finding>& findings) {
  for (int node = 0; node < static_cast<int>(record.hosts.size()); ++node) {
    const std::string& host = record.hosts[static_cast<std::size_t>(node)];
    const auto rate = [](const NetworkPair& pair) { return pair.put_gbyte_per_s; };
    std::string slow;
    const auto sends = best_and_usual(
        record, node, true, [&](const auto& pair) { return pair.from == node; }, rate);
    const auto receives = best_and_usual(
        record, node, true, [&](const auto& pair) { return pair.to == node; }, rate);
    for (const auto& [what, figures] : {std::pair{"sends", sends}, {"receives", receives}}) {
      if (!figures || figures->best >= kBandwidthRatio * figures->usual) continue;
      slow += fmt::format("{}{} {} {:.3g} GB/s at best, where other pairs have {:.3g}", slow.empty() ? "" : "; ", host,
                          what, figures->best, figures->usual);
    }
    if (!slow.empty()) {
      findings.push_back(of_hosts("node-bandwidth", Severity::warn, slow, {host},
                                  "every exchange waits for the slowest node", kReplace));
      continue;  // a link that is full is late, too
    }
    const auto latency = best_and_usual(
        record, node, false, [&](const auto& pair) { return pair.from == node || pair.to == node; },
        [](const auto& pair) { return pair.latency_us; });
    if (latency && latency->best > kLatencyRatio * latency->usual) {
      findings.push_back(
          of_hosts("node-latency", Severity::warn,
                   fmt::format("a word to or from {} takes {:.3g} us at best, where other pairs need {:.3g}", host,
                               latency->best, latency->usual),
                   {host}, "small exchanges wait for the farthest node",
                   "place the nodes together (placement group, one spine)"));
    }
  }
}

void add_pairs(const NetworkRecord& record, std::vector<Finding>& findings) {
  for (const NetworkPair& pair : record.pairs) {
    const std::string &from = record.hosts[static_cast<std::size_t>(pair.from)],
                      &to = record.hosts[static_cast<std::size_t>(pair.to)];
    if (!pair.failure.empty()) {
      findings.push_back(
          of_hosts("pair", Severity::refuse, fmt::format("{} and {}: {}", from, to, pair.failure), {from, to},
                   "a pair that does not answer stops the first exchange",
                   "give the security group a rule for all traffic to and from itself, both ways, and keep "
                   "all nodes in one availability zone"));
    }
    const bool is_lost =
        pair.path_mtu != kUnknown && pair.interface_mtu != kUnknown && pair.path_mtu < pair.interface_mtu;
    if (is_lost) {
      findings.push_back(of_hosts("path-mtu", Severity::warn,
                                  fmt::format("datagrams of {} bytes from {} to {} are lost, and of {} pass",
                                              pair.interface_mtu, from, to, pair.path_mtu),
                                  {from, to},
                                  "TCP shrinks its segments and is slower without a word; other protocols lose data",
                                  "give all nodes the same MTU (9001 in a VPC)"));
    }
  }
}

void add_traffic(const NetworkRecord& record, std::vector<Finding>& findings) {
  const bool is_efa = record.provider.find("efa") != std::string::npos;
  // Counters hold headers too, so they are never below what was sent; some are read a little later than others.
  constexpr double kSeen = 0.95;
  for (const NodeTraffic& traffic : record.traffic) {
    if (!is_efa || static_cast<double>(traffic.nic_bytes) >= kSeen * static_cast<double>(traffic.put_bytes)) continue;
    findings.push_back(of_hosts(
        "efa-traffic", Severity::refuse,
        fmt::format("{} sent {}, and its EFA devices counted {} ({}); its other interfaces counted {}", traffic.host,
                    bytes_text(traffic.put_bytes), bytes_text(traffic.nic_bytes),
                    traffic.nic_source.empty() ? "there are no counters" : traffic.nic_source,
                    bytes_text(traffic.socket_bytes)),
        {traffic.host}, "the bytes did not go over EFA, whatever the logs say",
        "look at findings about providers, libraries and devices; FI_LOG_LEVEL=info says what libfabric chose"));
  }
}

}  // namespace

std::vector<Finding> judge_network(const NetworkRecord& record) {
  std::vector<Finding> findings;
  add_traffic(record, findings);
  add_pairs(record, findings);
  add_slow_nodes(record, findings);
  return findings;
}

}  // namespace mrb
