#include "doctor/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/aligned_buffer.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "doctor/path_mtu.hpp"
#include "transport/channel.hpp"

namespace mrb {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NetworkPair, from, to, latency_us, put_gbyte_per_s, interface_mtu, path_mtu, failure)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeTraffic, host, put_bytes, nic_bytes, socket_bytes, nic_source)

namespace {

constexpr std::size_t kPutBytes = 256 * 1024;
constexpr int kRoundTrips = 50;
constexpr std::int64_t kEnough_ns = 50'000'000;  // a window that takes so long says what the link does
constexpr std::uint64_t kFirstPuts = 4, kPutsMax = 256;
constexpr int kWindowsMin = 2;

std::vector<std::string> gather(Bootstrap& bootstrap, const std::string& mine) {
  std::vector<std::string> all;
  for (const auto& bytes : bootstrap.all_gather(std::as_bytes(std::span(mine)))) {
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

// Two ranks, of which the first measures. What they say to each other alternates strictly, so that five tags are enough
// for all of it, and every rank takes as many whether or not it is one of the two.
class PairTalk {
 public:
  PairTalk(Channel& channel, AlignedBuffer& memory, RegionId region)
      : channel_(channel), memory_(memory), region_(region), puts_from_(static_cast<std::size_t>(channel.size())) {
    for (Tag* tag : {&there_, &back_, &windows_, &data_, &all_here_}) *tag = channel.next_tag();
  }

  double latency_us(int peer) {
    std::vector<std::int64_t> trips_ns;
    for (int i = 0; i < kRoundTrips; ++i) {
      const std::int64_t began_ns = steady_now_ns();
      say(peer, there_);
      hear(peer, back_);
      trips_ns.push_back(steady_now_ns() - began_ns);
    }
    channel_.wait_sent("latency");
    std::nth_element(trips_ns.begin(), trips_ns.begin() + kRoundTrips / 2, trips_ns.end());
    return ns_to_us(trips_ns[kRoundTrips / 2]) / 2;
  }
  void answer_latency(int peer) {
    for (int i = 0; i < kRoundTrips; ++i) {
      hear(peer, there_);
      say(peer, back_);
    }
    channel_.wait_sent("latency");
  }

  // Windows of twice as many puts each time, until one takes long enough: short on a slow link, full on a fast one.
  double send(int peer) {
    double best = 0;
    int windows = 0;
    for (std::uint64_t puts = kFirstPuts; puts <= kPutsMax; puts *= 2) {
      const std::int64_t began_ns = steady_now_ns();
      announce(peer, puts);
      for (std::uint64_t i = 0; i < puts; ++i) {
        channel_.put(peer, {region_, kWordBytes}, {region_, kWordBytes + kPutBytes}, kPutBytes, data_, "bandwidth");
      }
      hear(peer, all_here_);
      const std::int64_t took_ns = steady_now_ns() - began_ns;
      best = std::max(best, gbyte_per_s(puts * kPutBytes, took_ns));
      if (took_ns >= kEnough_ns && ++windows >= kWindowsMin) break;
    }
    announce(peer, 0);
    channel_.wait_sent("bandwidth");
    return best;
  }
  void receive(int peer) {
    while (true) {
      hear(peer, windows_);
      std::uint64_t puts = 0;
      std::memcpy(&puts, memory_.data(), sizeof puts);
      if (puts == 0) break;
      expect(peer, data_, puts * channel_.pieces(kPutBytes), "bandwidth");
      say(peer, all_here_);
    }
    channel_.wait_sent("bandwidth");
  }

  // A word that comes in, a word that goes out, what is sent, and where it arrives.
  static constexpr std::size_t kWordBytes = 64;
  static constexpr std::size_t kMemoryBytes = kWordBytes + 2 * kPutBytes;

 private:
  void announce(int peer, std::uint64_t puts) {
    channel_.wait_sent("bandwidth");  // the word is not written while it leaves
    std::memcpy(memory_.data() + kOutgoing, &puts, sizeof puts);
    say(peer, windows_);
  }
  void say(int peer, Tag tag) {
    channel_.put(peer, {region_, kOutgoing}, {region_, 0}, sizeof(std::uint64_t), tag, "a word");
  }
  void hear(int peer, Tag tag) { expect(peer, tag, 1, "a word"); }
  void expect(int peer, Tag tag, std::size_t puts, std::string_view what) {
    std::fill(puts_from_.begin(), puts_from_.end(), 0);
    puts_from_[static_cast<std::size_t>(peer)] = puts;
    channel_.wait_puts(tag, puts_from_, what);
  }

  static constexpr std::size_t kOutgoing = 8;

  Channel& channel_;
  AlignedBuffer& memory_;
  RegionId region_;
  std::vector<std::size_t> puts_from_;
  Tag there_ = 0, back_ = 0, windows_ = 0, data_ = 0, all_here_ = 0;
};

// Rounds in which each node has at most one partner, and after which each pair has met once (the circle method).
std::vector<std::vector<int>> rounds_of(int nodes) {
  const int seats = nodes + nodes % 2;  // an odd one out has a free round
  std::vector<std::vector<int>> rounds;
  for (int round = 0; round + 1 < seats; ++round) {
    std::vector<int> partner(static_cast<std::size_t>(nodes), -1);
    const auto meet_up = [&](int a, int b) {
      if (a >= nodes || b >= nodes) return;
      partner[static_cast<std::size_t>(a)] = b;
      partner[static_cast<std::size_t>(b)] = a;
    };
    const int turning = seats - 1;
    meet_up(round, seats - 1);
    for (int i = 1; i < seats / 2; ++i) meet_up((round + i) % turning, (round - i + turning) % turning);
    rounds.push_back(partner);
  }
  return rounds;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

NetworkRecord measure_network(Bootstrap& bootstrap, const std::vector<Facts>& by_rank, const NetworkOptions& options) {
  NetworkRecord record{.transport = options.transport};
  std::vector<int> leader;  // of each node: its first rank
  for (const Facts& facts : by_rank) {
    if (std::find(record.hosts.begin(), record.hosts.end(), facts.host) != record.hosts.end()) continue;
    record.hosts.push_back(facts.host);
    leader.push_back(facts.rank);
  }
  const auto nodes = static_cast<int>(record.hosts.size());
  const auto mine = std::find(leader.begin(), leader.end(), bootstrap.rank());
  const int node = mine == leader.end() ? -1 : static_cast<int>(mine - leader.begin());

  std::vector<NetworkPair> pairs;  // from this node
  std::vector<NodeTraffic> traffic;
  {
    const auto transport = make_transport(options.transport, bootstrap, options.transport_options);
    Channel channel(*transport, bootstrap, options.pair_timeout_s);
    record.provider = channel.capabilities().provider;
    AlignedBuffer memory(PairTalk::kMemoryBytes);
    const RegionId region = channel.expose(memory.bytes());
    const MtuProbe mtu;
    const auto mtu_addresses = gather(bootstrap, mtu.address());
    const NicCounters nic_before = read_nic_counters(record.provider, false);
    const NicCounters socket_before = read_nic_counters("tcp", false);
    bool all_answered = true;
    for (const auto& partners : rounds_of(nodes)) {
      PairTalk talk(channel, memory, region);
      bootstrap.barrier();
      const int partner = node < 0 ? -1 : partners[static_cast<std::size_t>(node)];
      if (partner < 0) continue;
      const int peer = leader[static_cast<std::size_t>(partner)];
      NetworkPair pair{.from = node, .to = partner};
      try {
        for (const bool is_mine : {node<partner, node> partner}) {
          if (is_mine) {
            pair.latency_us = talk.latency_us(peer);
            pair.put_gbyte_per_s = talk.send(peer);
          } else {
            talk.answer_latency(peer);
            talk.receive(peer);
          }
        }
      } catch (const Error& error) {
        pair.failure = first_line(error.what());
        all_answered = false;
      }
      const PathMtu path = mtu.try_to(mtu_addresses[static_cast<std::size_t>(peer)]);
      pair.interface_mtu = path.of_interface;
      pair.path_mtu = path.passes;
      pairs.push_back(pair);
    }
    bootstrap.barrier();  // the last to try a path still needs its answer
    if (node >= 0) {
      NodeTraffic counted{.host = record.hosts[static_cast<std::size_t>(node)]};
      for (const std::uint64_t bytes : channel.traffic().bytes_to) counted.put_bytes += bytes;
      const NicCounters nic_after = read_nic_counters(record.provider, false);
      counted.nic_bytes = nic_after.sent_bytes - nic_before.sent_bytes;
      counted.nic_source = nic_after.source;
      counted.socket_bytes = read_nic_counters("tcp", false).sent_bytes - socket_before.sent_bytes;
      traffic.push_back(counted);
    }
    if (bootstrap.max(all_answered ? 0 : 1) == 0) channel.drain(bootstrap);
    channel.withdraw(region);
    bootstrap.barrier();  // nobody closes an endpoint that a peer still writes to
  }
  for (const std::string& text : gather(bootstrap, nlohmann::json{pairs, traffic}.dump())) {
    const auto json = nlohmann::json::parse(text);
    for (const auto& pair : json[0]) record.pairs.push_back(pair.get<NetworkPair>());
    for (const auto& node_traffic : json[1]) record.traffic.push_back(node_traffic.get<NodeTraffic>());
  }
  return record;
}

}  // namespace mrb
