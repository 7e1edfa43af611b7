#include "doctor/network.hpp"

#include <algorithm>

#include "cluster/nic_counters.hpp"
#include "doctor/node_tree.hpp"
#include "doctor/path_mtu.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

// Four nodes whose pairs are all alike.
NetworkRecord healthy() {
  NetworkRecord record{.hosts = {"a", "b", "c", "d"}, .transport = "libfabric", .provider = "efa"};
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      if (from != to) record.pairs.push_back({from, to, 20, 10, 9001, 9001, ""});
    }
    record.traffic.push_back(
        {record.hosts[static_cast<std::size_t>(from)], 1000000, 1040000, 2000, "tx_bytes of rdmap0s0"});
  }
  return record;
}

std::string words_of(const NetworkRecord& record) {
  std::string text;
  for (const Finding& finding : judge_network(record)) text += finding.id + ": " + finding.problem + "\n";
  return text;
}

}  // namespace

TEST_CASE("a network of equal pairs has no findings", "[doctor]") {
  CHECK(words_of(healthy()) == "");
  CHECK(words_of(NetworkRecord{}) == "");
}

TEST_CASE("a slow node is named, and not those that talk to it", "[doctor]") {
  NetworkRecord record = healthy();
  for (NetworkPair& pair : record.pairs) {
    if (pair.from == 2) pair.put_gbyte_per_s = 1;
  }
  CHECK(words_of(record) == "node-bandwidth: c sends 1 GB/s at best, where other pairs have 10\n");
  record = healthy();
  for (NetworkPair& pair : record.pairs) {
    if (pair.from == 0 || pair.to == 0) pair.latency_us = 100;
  }
  CHECK(words_of(record) == "node-latency: a word to or from a takes 100 us at best, where other pairs need 20\n");
}

TEST_CASE("of two nodes neither is called slow", "[doctor]") {
  NetworkRecord record{.hosts = {"a", "b"}, .provider = "tcp"};
  record.pairs = {{0, 1, 20, 10, 1500, 1500, ""}, {1, 0, 20, 1, 1500, 1500, ""}};
  CHECK(words_of(record) == "");
}

TEST_CASE("a pair without an answer and a lost datagram are findings of that pair", "[doctor]") {
  NetworkRecord record = healthy();
  record.pairs[0].failure = "waited 10 s";
  record.pairs[5].path_mtu = 1500;  // from b to d
  CHECK(words_of(record) ==
        "pair: a and b: waited 10 s\npath-mtu: datagrams of 9001 bytes from b to d are lost, and of 1500 pass\n");
}

TEST_CASE("that bytes went over EFA is proven by its counters, and by nothing else", "[doctor]") {
  NodeTree tree("p6-b200.48xlarge");
  const std::uint64_t sent = 5'000'000;
  const NicCounters efa_before = read_nic_counters("efa", false, tree.root());
  const auto proof = [&] {
    NetworkRecord record{.hosts = {"node0"}, .transport = "libfabric", .provider = "efa-direct"};
    const NicCounters after = read_nic_counters("efa", false, tree.root());
    record.traffic = {{"node0", sent, after.sent_bytes - efa_before.sent_bytes, 5'300'000, after.source}};
    return words_of(record);
  };
  CHECK_THAT(proof(), contains("efa-traffic: node0 sent 4.8 MiB, and its EFA devices counted 0 B"));
  tree.apply("/sys/class/infiniband/rdmap{0..7}s0/ports/1/hw_counters/tx_bytes = 651000\n");  // 8 x 650 kB
  CHECK(proof() == "");

  NetworkRecord tcp{.hosts = {"node0"}, .transport = "libfabric", .provider = "tcp;ofi_rxm"};
  tcp.traffic = {{"node0", sent, 0, 0, ""}};
  CHECK(words_of(tcp) == "");  // nobody said that it was EFA
}

TEST_CASE("every pair of nodes is measured both ways, by the first rank of each", "[doctor]") {
  // Six ranks on three nodes; an odd number leaves one node out in each round.
  run_ranks(6, [](Bootstrap& bootstrap) {
    std::vector<Facts> facts(6);
    for (int rank = 0; rank < 6; ++rank) {
      facts[static_cast<std::size_t>(rank)].rank = rank;
      facts[static_cast<std::size_t>(rank)].host = "node" + std::to_string(rank / 2);
    }
    const NetworkRecord record = measure_network(bootstrap, facts, {.transport = "loopback"});
    if (bootstrap.rank() != 5) return;  // all have the same
    CHECK(record.hosts == std::vector<std::string>{"node0", "node1", "node2"});
    REQUIRE(record.pairs.size() == 6);
    for (const NetworkPair& pair : record.pairs) {
      INFO(pair.from << " to " << pair.to << ": " << pair.failure);
      CHECK(pair.failure.empty());
      CHECK(pair.latency_us > 0);
      CHECK(pair.put_gbyte_per_s > 0);
      const auto same = [&](const NetworkPair& other) { return other.from == pair.from && other.to == pair.to; };
      CHECK(std::count_if(record.pairs.begin(), record.pairs.end(), same) == 1);
    }
    REQUIRE(record.traffic.size() == 3);
    for (const NodeTraffic& traffic : record.traffic) CHECK(traffic.put_bytes > 1'000'000);
  });
}

TEST_CASE("a host answers datagrams of its own size, and one that is gone does not", "[doctor]") {
  const MtuProbe mine;
  std::string gone;
  {
    const MtuProbe other;
    gone = other.address();
    const PathMtu path = mine.try_to(other.address());
    if (path.of_interface < 0) return;  // this machine has no network
    CHECK(path.passes == path.of_interface);
  }
  CHECK(mine.try_to(gone).passes == -1);
  CHECK(mine.try_to("").of_interface == -1);
}
