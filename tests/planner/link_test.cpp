#include "planner/link.hpp"

#include <chrono>
#include <vector>

#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

constexpr double kMiB = 1048576;
constexpr Link kSwitch{.byte_per_s = 50.0 * 1024 * 1024 * 1024, .latency_s = 1e-6};

}  // namespace

TEST_CASE("an exchange among 1,024 ranks takes what a congestion-aware simulator says", "[planner]") {
  // ASTRA-sim: 64 MiB a rank, 50 GiB/s, 1 us, one switch: 1.2513 ms. Counting one message only gives 3.2 us.
  CHECK(alltoall_s(1024, 64 * kMiB, kSwitch) * 1e3 == Approx(1.2513).epsilon(0.005));
  // The port sends n - 1 of n parts: 7/8, 63/64 and 255/256 of 1.25 ms, and 1 us.
  CHECK(alltoall_s(8, 64 * kMiB, kSwitch) * 1e3 == Approx(1.09475).epsilon(1e-6));
  CHECK(alltoall_s(64, 64 * kMiB, kSwitch) * 1e3 == Approx(1.23146875).epsilon(1e-6));
  CHECK(alltoall_s(256, 64 * kMiB, kSwitch) * 1e3 == Approx(1.2461171875).epsilon(1e-6));
}

TEST_CASE("what all send to one arrives one after the other", "[planner]") {
  std::vector<double> bytes(16, 0);
  for (std::size_t from = 1; from < 4; ++from) bytes[from * 4] = 1e6;
  CHECK(exchange_s(bytes, 4, {.byte_per_s = 1e9, .latency_s = 0}) == Approx(3e-3));
}

TEST_CASE("nothing sent takes no time, and one rank sends nothing", "[planner]") {
  const std::vector<double> none(16, 0);
  CHECK(exchange_s(none, 4, kSwitch) == 0);
  CHECK(alltoall_s(1, 1e9, kSwitch) == 0);
}
