// The conformance of every transport that connects processes.
#include "mpi/mpi_ranks.hpp"
#include "support/catch.hpp"
#include "transport/conformance.hpp"

using namespace mrb;

namespace {

struct Kind {
  std::string name;
  std::string provider;
};

// Those of this build that reach other processes on this machine.
std::vector<Kind> kinds() {
  std::vector<Kind> found;
  for (const auto& line : transport_lines()) {
    if (!line.needs.empty() || line.name == "loopback") continue;
    if (line.name == "libfabric") {
      found.push_back({line.name, "tcp"});
      found.push_back({line.name, "shm"});
    } else {
      found.push_back({line.name, ""});
    }
  }
  return found;
}

}  // namespace

TEST_CASE("every transport does what a transport must, between processes", "[transport]") {
  for (const Kind& kind : kinds()) {
    for (const auto& [sentence, check] : test::conformance_checks()) {
      INFO(kind.name << " " << kind.provider << ": " << sentence);
      test::on_all_ranks([&, check = check](Bootstrap& bootstrap) {
        check(bootstrap, [&](Bootstrap& ours) { return make_transport(kind.name, ours, {.provider = kind.provider}); });
      });
    }
  }
}

TEST_CASE("a transport says what carries its bytes", "[transport]") {
  for (const Kind& kind : kinds()) {
    test::on_all_ranks([&](Bootstrap& bootstrap) {
      const auto transport = make_transport(kind.name, bootstrap, {.provider = kind.provider});
      const TransportCapabilities& found = transport->capabilities();
      bootstrap.barrier();
      if (found.name != kind.name || found.provider.find(kind.provider) != 0 || found.provider.empty() ||
          found.loaded_library.empty() || found.put_bytes_max < (1u << 20)) {
        throw std::runtime_error(found.name + ", " + found.provider + ", " + found.loaded_library);
      }
    });
  }
}

TEST_CASE("loopback refuses ranks in other processes", "[transport]") {
  std::string text;
  test::on_all_ranks([&](Bootstrap& bootstrap) {
    try {
      make_transport("loopback", bootstrap, {});
    } catch (const Error& error) {
      text = error.what();
    }
  });
  CHECK_THAT(text, test::contains("'loopback' cannot reach") && test::contains("fix: use transport: mpi"));
}
