#include "support/catch.hpp"
#include "transport/transport.hpp"

using namespace mrb;

namespace {

bool has(const std::string& name) {
  for (const auto& line : transport_lines()) {
    if (line.name == name) return line.needs.empty();
  }
  return false;
}

}  // namespace

TEST_CASE("an unknown transport lists those of this build", "[transport]") {
  const auto solo = make_bootstrap("solo", {});
  CHECK_THROWS_WITH(make_transport("tcp", *solo, {}),
                    test::contains("no transport called 'tcp'") && test::contains("fix: use one of: loopback"));
}

TEST_CASE("a transport that was left out says which option brings it back", "[transport]") {
  const auto solo = make_bootstrap("solo", {});
  for (const auto& line : transport_lines()) {
    if (line.needs.empty()) continue;
    CHECK_THROWS_WITH(make_transport(line.name, *solo, {}), test::contains("-DMRB_WITH_" + line.needs + "=ON"));
  }
}

TEST_CASE("libfabric takes no provider for granted", "[transport]") {
  if (!has("libfabric")) return;
  const auto solo = make_bootstrap("solo", {});
  CHECK_THROWS_WITH(
      make_transport("libfabric", *solo, {}),
      test::contains("needs a provider") && test::contains("transport.provider to one of: tcp, shm, efa"));
  CHECK_THROWS_WITH(make_transport("libfabric", *solo, {.provider = "sockets"}),
                    test::contains("no libfabric provider called 'sockets'") && test::contains("tcp, shm, efa"));
}

TEST_CASE("the mpi transport says what it needs when there is no mpirun", "[transport]") {
  if (!has("mpi")) return;
  const auto solo = make_bootstrap("solo", {});
  CHECK_THROWS_WITH(make_transport("mpi", *solo, {}),
                    test::contains("started by mpirun") && test::contains("--ranks N"));
}
