// The conformance checks on threads, for every dispatcher of the registry: a new one is judged the moment its
// file exists.
#include "dispatch/conformance.hpp"

#include <functional>
#include <mutex>

#include "support/catch.hpp"
#include "support/shuffling_transport.hpp"
#include "support/threaded_ranks.hpp"

namespace mrb::test {

namespace {

using MakeTransport = std::function<std::unique_ptr<Transport>(Bootstrap&)>;

constexpr double kTimeout_s = 60;

std::vector<std::string> failures_of(const ConformanceCheck& check, const Kernel& kernel, int ranks,
                                     const MakeTransport& make) {
  std::mutex mutex;
  std::vector<std::string> failures;
  run_ranks(ranks, [&](Bootstrap& bootstrap) {
    const auto transport = make(bootstrap);
    Channel channel(*transport, bootstrap, kTimeout_s);
    Rank rank{bootstrap, channel, kernel};
    check.run(rank);
    bootstrap.barrier();
    if (const auto* shuffling = dynamic_cast<ShufflingTransport*>(transport.get())) {
      rank.expect(shuffling->late_puts() == 0, "memory was withdrawn while a put was on its way there");
    }
    const std::lock_guard lock(mutex);
    failures.insert(failures.end(), rank.failures.begin(), rank.failures.end());
  });
  return failures;
}

void check_all(int ranks, Options options, const MakeTransport& make) {
  for (const Kernel& kernel : kernels(ranks, options)) {
    for (const ConformanceCheck& check : kConformanceChecks) {
      INFO(kernel.text << " on " << ranks << " ranks: " << check.name);
      const auto failures = failures_of(check, kernel, ranks, make);
      for (const std::string& failure : failures) UNSCOPED_INFO(failure);
      CHECK(failures.empty());
    }
  }
}

}  // namespace

TEST_CASE("every dispatcher does what it must on any number of ranks", "[dispatch]") {
  const int ranks = GENERATE(1, 2, 3, 4, 6, 8);
  check_all(ranks, ranks == 4 ? Options::all : Options::some,
            [](Bootstrap& bootstrap) { return make_transport("loopback", bootstrap, {}); });
}

TEST_CASE("no dispatcher relies on the order in which puts arrive", "[dispatch]") {
  const int ranks = GENERATE(2, 3, 6, 8);
  // Short and odd, so that most blocks come in several pieces.
  ShufflingNetwork network(ranks, 7, 1000);
  check_all(ranks, ranks == 3 ? Options::all : Options::some,
            [&](Bootstrap& bootstrap) { return std::make_unique<ShufflingTransport>(network, bootstrap); });
}

}  // namespace mrb::test
