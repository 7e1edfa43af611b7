// The conformance checks on processes, over every transport that connects them on this machine.
#include "dispatch/conformance.hpp"
#include "mpi/mpi_ranks.hpp"
#include "support/catch.hpp"

namespace mrb::test {

namespace {

constexpr double kTimeout_s = 60;

struct Kind {
  std::string name;
  std::string provider;
};

std::vector<Kind> transports_between_processes() {
  std::vector<Kind> found;
  for (const RegistryLine& line : transport_lines()) {
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

// Throws when the check failed on this rank. The transport ends on all ranks together.
void run_check(const ConformanceCheck& check, const Kernel& kernel, const Kind& kind, Bootstrap& bootstrap) {
  const auto transport = make_transport(kind.name, bootstrap, {.provider = kind.provider});
  Channel channel(*transport, bootstrap, kTimeout_s);
  Rank rank{bootstrap, channel, kernel};
  check.run(rank);
  bootstrap.barrier();
  if (!rank.failures.empty()) throw std::runtime_error(fmt::format("{}", fmt::join(rank.failures, "\n")));
}

}  // namespace

TEST_CASE("every dispatcher does what it must between processes", "[dispatch]") {
  for (const Kind& kind : transports_between_processes()) {
    for (const Kernel& kernel : kernels(mpi_ranks().size(), Options::some)) {
      for (const ConformanceCheck& check : kConformanceChecks) {
        INFO(kernel.text << " over " << kind.name << " " << kind.provider << ": " << check.name);
        on_all_ranks([&](Bootstrap& bootstrap) { run_check(check, kernel, kind, bootstrap); });
      }
    }
  }
}

}  // namespace mrb::test
