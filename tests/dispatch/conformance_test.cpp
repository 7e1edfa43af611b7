// The conformance checks on threads, for every dispatcher of the registry: a new one is judged the moment its
// file exists.
#include "dispatch/conformance.hpp"

#include <functional>
#include <mutex>

#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"
#include "transport/chaos.hpp"

namespace mrb::test {

namespace {

using MakeTransport = std::function<std::unique_ptr<Transport>(Bootstrap&)>;

constexpr double kTimeout_s = 60;

// Without optimising, and with sanitizers, all is many times slower: fewer numbers of ranks and a shorter long run.
#ifndef NDEBUG
const std::vector<int> kRanksClean = {1, 4}, kRanksChaos = {2, 3};
constexpr int kRanksAllOptions = 0;  // some options of each kernel have to do
constexpr const ConformanceCheck& kLongRun = kSomeFreeRunningSteps;
#else
// What chaos sees needs no clean run: all options are tried there.
const std::vector<int> kRanksClean = {1, 2, 4}, kRanksChaos = {2, 3, 6, 8};
constexpr int kRanksAllOptions = 3;
constexpr const ConformanceCheck& kLongRun = kThousandFreeRunningSteps;
#endif

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
    rank.expect(late_puts(*transport) == 0, "memory was withdrawn while a put needed it");
    const std::lock_guard lock(mutex);
    failures.insert(failures.end(), rank.failures.begin(), rank.failures.end());
  });
  return failures;
}

void check_one(const ConformanceCheck& check, const Kernel& kernel, int ranks, const MakeTransport& make) {
  INFO(kernel.text << " on " << ranks << " ranks: " << check.name);
  const auto failures = failures_of(check, kernel, ranks, make);
  for (const std::string& failure : failures) UNSCOPED_INFO(failure);
  CHECK(failures.empty());
}

void check_all(int ranks, Options options, const MakeTransport& make) {
  for (const Kernel& kernel : kernels(ranks, options)) {
    for (const ConformanceCheck& check : kConformanceChecks) check_one(check, kernel, ranks, make);
  }
}

}  // namespace

TEST_CASE("every dispatcher does what it must on any number of ranks", "[dispatch]") {
  const int ranks = GENERATE(from_range(kRanksClean));
  check_all(ranks, Options::some,
            [](Bootstrap& bootstrap) { return make_transport("loopback", bootstrap, {}); });
}

TEST_CASE("every dispatcher does what it must under chaos", "[dispatch]") {
  const int ranks = GENERATE(from_range(kRanksChaos));
  const ChaosOptions chaos{.seed = static_cast<std::uint64_t>(ranks), .late_start_ms = 2};
  check_all(ranks, ranks == kRanksAllOptions ? Options::all : Options::some,
            [&](Bootstrap& bootstrap) { return make_transport("loopback", bootstrap, {.chaos = chaos}); });
}

TEST_CASE("a thousand free-running steps under chaos race nowhere", "[dispatch]") {
  constexpr int kRanks = 3;
  for (const Kernel& kernel : kernels(kRanks, Options::all)) {
    check_one(kLongRun, kernel, kRanks,
              [](Bootstrap& bootstrap) { return make_transport("loopback", bootstrap, {.chaos = {.seed = 4}}); });
  }
}

}  // namespace mrb::test
