// The conformance of a transport, over loopback with ranks as threads.
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
