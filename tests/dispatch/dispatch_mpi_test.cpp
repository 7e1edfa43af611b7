// The conformance checks on processes, over every transport that connects them on this machine.
#include "dispatch/conformance.hpp"
#include "mpi/mpi_ranks.hpp"
#include "support/catch.hpp"
#include "transport/chaos.hpp"

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
void run_check(const ConformanceCheck& check, const Kernel& kernel, const Kind& kind, Bootstrap& bootstrap,
               const ChaosOptions& chaos = {}) {
  const auto transport = make_transport(kind.name, bootstrap, {.provider = kind.provider, .chaos = chaos});
  Channel channel(*transport, bootstrap, kTimeout_s);
  Rank rank{bootstrap, channel, kernel};
  check.run(rank);
  bootstrap.barrier();
  rank.expect(late_puts(*transport) == 0, "memory was withdrawn while a put needed it");
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

// Those that use the same buffers again and again; the others show nothing between processes that they do not show
// between threads.
TEST_CASE("no dispatcher relies on more than a transport promises, between processes", "[dispatch]") {
  for (const Kind& kind : transports_between_processes()) {
    for (const Kernel& kernel : kernels(mpi_ranks().size(), Options::some)) {
      for (const ConformanceCheck& check :
           {ConformanceCheck{"nothing is left of the step before", keeps_nothing_of_the_step_before},
            ConformanceCheck{"two routes live side by side", two_routes_live_side_by_side},
            ConformanceCheck{"free-running steps do not race", free_running_steps_do_not_race<100>}}) {
        INFO(kernel.text << " under chaos over " << kind.name << " " << kind.provider << ": " << check.name);
        on_all_ranks([&](Bootstrap& bootstrap) { run_check(check, kernel, kind, bootstrap, {.seed = 3}); });
      }
    }
  }
}

}  // namespace mrb::test
