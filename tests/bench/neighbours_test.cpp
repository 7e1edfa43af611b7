#include "bench/neighbours.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

using namespace mrb;

namespace {

Machine machine(const std::string& host, const std::string& cpus, int cores_allowed, std::uint64_t memory_bytes = 0) {
  return {.host = host, .cores_online = 8, .cores_allowed = cores_allowed, .cpus = cpus, .memory_bytes = memory_bytes};
}

}  // namespace

TEST_CASE("ranks per node are counted when all nodes are alike and in order", "[bench]") {
  const auto on = [](std::vector<std::string> hosts) {
    std::vector<Machine> machines;
    for (const std::string& host : hosts) machines.push_back({.host = host});
    return ranks_per_node(machines);
  };
  CHECK(on({"a", "a", "a"}) == 3);
  CHECK(on({"a", "a", "b", "b"}) == 2);
  CHECK(on({"a", "b", "a", "b"}) == 0);  // round robin: no rank has its neighbours beside it
  CHECK(on({"a", "a", "b"}) == 0);
  CHECK(on({"a"}) == 1);
}

TEST_CASE("lists of cores are read as Linux writes them", "[bench]") {
  CHECK(cpus_in("0-3,8") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(cpus_in("5") == std::vector<int>{5});
  for (const char* bad : {"", "x", "3-1", "-2", "1-9999999"}) CHECK(cpus_in(bad).empty());
}

TEST_CASE("ranks that may run anywhere share the node's cores", "[bench]") {
  const std::vector<Machine> machines(4, machine("a", "0-7", 8));
  CHECK(cores_of(machines, 0) == 2);
}

TEST_CASE("a rank that is bound to its own cores keeps them all", "[bench]") {
  const std::vector<Machine> machines = {machine("a", "0-3", 4), machine("a", "4-5", 2)};
  CHECK(cores_of(machines, 0) == 4);
  CHECK(cores_of(machines, 1) == 2);
}

TEST_CASE("ranks of other nodes take nothing", "[bench]") {
  CHECK(cores_of({machine("a", "0-7", 8), machine("b", "0-7", 8)}, 1) == 8);
}

TEST_CASE("a quota is shared by the ranks of its node", "[bench]") {
  const std::vector<Machine> machines(2, machine("a", "0-7", 4));
  CHECK(cores_of(machines, 0) == 2);
}

TEST_CASE("more ranks than cores leave one for each", "[bench]") {
  const std::vector<Machine> machines(4, machine("a", "0-1", 2));
  CHECK(cores_of(machines, 3) == 1);
  CHECK(cores_of({machine("a", "", 1)}, 0) == 1);  // cores unknown
}

TEST_CASE("memory is 90% of the fullest node's, by rank", "[bench]") {
  const std::vector<Machine> machines = {machine("a", "0", 1, 4000), machine("a", "0", 1, 4000),
                                         machine("b", "0", 1, 2500)};
  CHECK(memory_bytes_per_rank(machines) == 1800);  // 4000 * 0.9 / 2, less than 2500 * 0.9
  CHECK(memory_bytes_per_rank({machine("a", "0", 1)}) == 0);
}

TEST_CASE("every rank learns of every machine", "[bench]") {
  std::vector<std::vector<Machine>> seen(2);
  test::run_ranks(2, [&](Bootstrap& bootstrap) {
    Machine mine = machine("host " + std::to_string(bootstrap.rank()), "0-3", 4, 123);
    mine.processor = "Some CPU @ 2 GHz";
    mine.load_average = 0.5;
    seen[static_cast<std::size_t>(bootstrap.rank())] = meet(bootstrap, mine);
  });
  for (const auto& machines : seen) {
    REQUIRE(machines.size() == 2);
    CHECK(machines[1].host == "host 1");
    CHECK(machines[1].processor == "Some CPU @ 2 GHz");
    CHECK(machines[1].cpus == "0-3");
    CHECK(machines[1].cores_allowed == 4);
    CHECK(machines[1].memory_bytes == 123);
    CHECK(machines[1].load_average == 0.5);
  }
}

TEST_CASE("a rank that read another configuration is named", "[bench]") {
  const std::vector<Machine> machines = {machine("a", "0", 1), machine("b", "0", 1)};
  CHECK_THROWS_WITH(test::run_ranks(2,
                                    [&](Bootstrap& bootstrap) {
                                      require_equal_settings(bootstrap, machines,
                                                             bootstrap.rank() == 0 ? "seed: 1" : "seed: 2");
                                    }),
                    test::contains("rank 1 (b)") && test::contains("fix: give all nodes the same"));
}
