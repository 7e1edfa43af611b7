#include "report/network_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

const NetworkPair* pair_of(const NetworkRecord& record, int from, int to) {
  for (const NetworkPair& pair : record.pairs) {
    if (pair.from == from && pair.to == to) return &pair;
  }
  return nullptr;
}

// How much worse than the median pair: up to a third, to a half, to a quarter, and beyond.
std::string shade(double times_worse) {
  if (times_worse < 1.5) return "·";
  if (times_worse < 2) return "░";
  return times_worse < 4 ? "▒" : "█";
}

struct MapOf {
  const char* title;
  std::function<double(const NetworkPair&)> value;
  std::function<double(double value, double median)> times_worse;
};

// Few nodes have numbers beside the shades; many have only shades.
std::string heat_map(const NetworkRecord& record, const MapOf& map) {
  constexpr int kNumbersMax = 12;
  const auto nodes = static_cast<int>(record.hosts.size());
  std::vector<double> values;
  for (const NetworkPair& pair : record.pairs) {
    if (pair.failure.empty()) values.push_back(map.value(pair));
  }
  std::sort(values.begin(), values.end());
  const double median = values.empty() ? 0 : values[values.size() / 2];
  std::size_t width = 0;
  for (const std::string& host : record.hosts) width = std::max(width, host.size());

  std::string text =
      fmt::format("# {}, median {:.3g}; a row sends to a column, in the order of the rows\n", map.title, median);
  for (int from = 0; from < nodes; ++from) {
    text += fmt::format("  {:<{}} ", record.hosts[static_cast<std::size_t>(from)], width);
    for (int to = 0; to < nodes; ++to) {
      const NetworkPair* pair = pair_of(record, from, to);
      const bool has_value = pair != nullptr && pair->failure.empty();
      const std::string mark = from == to ? " " : has_value ? shade(map.times_worse(map.value(*pair), median)) : "X";
      const std::string number = from == to ? "-" : has_value ? fmt::format("{:.3g}", map.value(*pair)) : "none";
      text += nodes <= kNumbersMax ? fmt::format(" {:>8}{}", number, mark) : mark;
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string network_text(const NetworkRecord& record) {
  if (record.hosts.size() < 2) return "# network: all ranks are on one node, so there is no pair of nodes to measure\n";
  std::string text =
      fmt::format("# network: {} over {} ({}); · within 1.5 times of the median, ░ 2, ▒ 4, █ worse, X no answer\n",
                  counted(record.pairs.size(), "pair"), record.transport, record.provider);
  text += heat_map(record, {"put bandwidth, GB/s", [](const NetworkPair& p) { return p.put_gbyte_per_s; },
                            [](double value, double median) { return value > 0 ? median / value : 1e9; }});
  text += heat_map(record, {"latency one way, us", [](const NetworkPair& p) { return p.latency_us; },
                            [](double value, double median) { return median > 0 ? value / median : 1; }});
  for (const NodeTraffic& traffic : record.traffic) {
    text += fmt::format("# {} put {}; counted {}\n", traffic.host, bytes_text(traffic.put_bytes),
                        traffic.nic_source.empty()
                            ? "by nothing: there are no counters"
                            : fmt::format("{} by {}", bytes_text(traffic.nic_bytes), traffic.nic_source));
  }
  return text;
}

Json network_json(const NetworkRecord& record) {
  const auto if_known = [](std::int64_t value) { return value == kUnknown ? Json(nullptr) : Json(value); };
  Json pairs = Json::array(), traffic = Json::array();
  for (const NetworkPair& pair : record.pairs) {
    const bool has_value = pair.failure.empty();
    pairs.push_back({{"from", record.hosts[static_cast<std::size_t>(pair.from)]},
                     {"to", record.hosts[static_cast<std::size_t>(pair.to)]},
                     {"latency_us", has_value ? Json(pair.latency_us) : Json(nullptr)},
                     {"put_gbyte_per_s", has_value ? Json(pair.put_gbyte_per_s) : Json(nullptr)},
                     {"interface_mtu_bytes", if_known(pair.interface_mtu)},
                     {"path_mtu_bytes", if_known(pair.path_mtu)},
                     {"failure", has_value ? Json(nullptr) : Json(pair.failure)}});
  }
  for (const NodeTraffic& node : record.traffic) {
    traffic.push_back({{"host", node.host},
                       {"put_bytes", node.put_bytes},
                       {"nic_bytes", node.nic_source.empty() ? Json(nullptr) : Json(node.nic_bytes)},
                       {"nic_source", node.nic_source},
                       {"socket_bytes", node.socket_bytes}});
  }
  return {{"source", "measured"},
          {"transport", record.transport},
          {"provider", record.provider},
          {"pairs", pairs},
          {"traffic", traffic}};
}

}  // namespace mrb
