// The conformance of a transport, over loopback with ranks as threads.
#include "base/aligned_buffer.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"
#include "transport/conformance.hpp"

TEST_CASE("loopback is a transport, with ranks as threads", "[transport]") {
  const int ranks = GENERATE(2, 3, 5);
  for (const auto& [sentence, check] : mrb::test::conformance_checks()) {
    INFO(ranks << " ranks: " << sentence);
    CHECK_NOTHROW(mrb::test::run_ranks(ranks, [&, check = check](mrb::Bootstrap& bootstrap) {
      check(bootstrap, [](mrb::Bootstrap& ours) { return mrb::make_transport("loopback", ours, {}); });
    }));
  }
}

TEST_CASE("a rank that has ended takes no more puts, and nothing is written where it was", "[transport]") {
  bool taken_before = false, taken_after = true;
  mrb::test::run_ranks(2, [&](mrb::Bootstrap& bootstrap) {
    auto transport = mrb::make_transport("loopback", bootstrap, {});
    mrb::AlignedBuffer memory(64);
    const mrb::RegionId region = transport->expose(memory.bytes());
    const mrb::Put put{1, region, 0, region, 32, 8, mrb::immediate_of(0, bootstrap.rank())};
    if (bootstrap.rank() == 0) taken_before = transport->try_put(put);
    bootstrap.barrier();
    if (bootstrap.rank() == 1) {
      transport.reset();
      memory = mrb::AlignedBuffer();
    }
    bootstrap.barrier();
    if (bootstrap.rank() == 0) taken_after = transport->try_put(put);
  });
  CHECK(taken_before);
  CHECK_FALSE(taken_after);
}
