#include <cstdlib>

#include "cluster/bootstrap.hpp"
#include "support/catch.hpp"

using namespace mrb;

TEST_CASE("solo is one rank that has everything", "[cluster]") {
  const auto solo = make_bootstrap("solo", {});
  CHECK(solo->rank() == 0);
  CHECK(solo->size() == 1);
  CHECK(solo->max(-7) == -7);
  const std::byte mine[] = {std::byte{1}, std::byte{2}};
  const auto all = solo->all_gather(mine);
  REQUIRE(all.size() == 1);
  CHECK(all[0] == std::vector<std::byte>{std::byte{1}, std::byte{2}});
}

TEST_CASE("an unknown bootstrap lists those of this build", "[cluster]") {
  CHECK_THROWS_WITH(make_bootstrap("slurm", {}),
                    test::contains("no bootstrap called 'slurm'") && test::contains("fix: use one of: solo"));
}

TEST_CASE("a bootstrap that was left out says which option brings it back", "[cluster]") {
  for (const auto& line : bootstrap_lines()) {
    if (line.needs.empty()) continue;
    CHECK_THROWS_WITH(make_bootstrap(line.name, {}), test::contains("-DMRB_WITH_" + line.needs + "=ON"));
  }
}

TEST_CASE("a process knows whether mpirun started it", "[cluster]") {
  const char* const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"};
  for (const char* name : names) {
    if (std::getenv(name) != nullptr) return;  // these tests are themselves under mpirun
  }
  CHECK_FALSE(started_by_mpirun());
  for (const char* name : names) {
    setenv(name, "1", 1);
    CHECK(started_by_mpirun());
    unsetenv(name);
  }
}
