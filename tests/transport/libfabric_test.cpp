// The libfabric transport over the fake provider: what tcp and shm do not ask for, rails, and credit.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include "base/aligned_buffer.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"
#include "transport/channel.hpp"
#include "transport/conformance.hpp"
#include "transport/fake_provider.hpp"
#include "transport/libfabric/over_domains.hpp"
#include "transport/libfabric/rail.hpp"
#include "transport/progress_thread.hpp"

using namespace mrb;

namespace {

std::unique_ptr<Transport> over(test::FakeNetwork& network, Bootstrap& bootstrap, int rails) {
  return make_libfabric_transport_over(bootstrap, network.open_rails(rails));
}

void check_clean(const test::FakeNetwork& network) {
  CHECK(fmt::format("{}", fmt::join(network.faults(), "; ")) == "");
  CHECK(network.open_objects() == 0);
}

}  // namespace

TEST_CASE("libfabric is a transport over a provider as strict as EFA", "[transport]") {
  const int ranks = GENERATE(2, 3);
  const int rails = GENERATE(1, 2);
  for (const auto& [sentence, check] : test::conformance_checks()) {
    INFO(ranks << " ranks, " << rails << " rails: " << sentence);
    test::FakeNetwork network;
    CHECK_NOTHROW(test::run_ranks(ranks, [&, check = check](Bootstrap& bootstrap) {
      check(bootstrap, [&](Bootstrap& ours) { return over(network, ours, rails); });
    }));
    check_clean(network);
  }
}

TEST_CASE("a transport with a progress thread is a transport", "[transport]") {
  for (const auto& [sentence, check] : test::conformance_checks()) {
    INFO(sentence);
    test::FakeNetwork network;
    CHECK_NOTHROW(test::run_ranks(2, [&, check = check](Bootstrap& bootstrap) {
      check(bootstrap, [&](Bootstrap& ours) { return with_progress_thread(over(network, ours, 2)); });
    }));
    check_clean(network);
  }
}

// 3 own puts, 1 own credit, 256 puts of the peer and 2 of its credits would be 262 places. The provider has 64, so it
// gives an eighth of that: 32, of which 26 are for puts of the peer.
TEST_CASE("a peer that does not look gets no more puts than its queue has places for", "[transport]") {
  test::FakeNetwork network;
  std::size_t taken = 0;
  std::size_t arrivals = 0;
  std::size_t pending = 1;
  std::string full;
  std::string empty;
  test::run_ranks(2, [&](Bootstrap& bootstrap) {
    const auto transport = over(network, bootstrap, 1);
    const AlignedBuffer memory(64);
    const RegionId region = transport->expose(memory.bytes());
    std::vector<std::uint32_t> arrived;
    const Put put{1, region, 0, region, 0, 8, immediate_of(3, 0)};
    const auto put_all = [&] {
      for (int polls = 0; polls < 2000; ++polls) {
        while (transport->try_put(put)) ++taken;
        transport->poll(arrived);
      }
    };
    if (bootstrap.rank() == 0) {
      put_all();
      full = transport->state();
    }
    bootstrap.barrier();
    if (bootstrap.rank() == 1) {
      for (int polls = 0; polls < 2000; ++polls) transport->poll(arrived);
      arrivals = arrived.size();
    }
    bootstrap.barrier();
    if (bootstrap.rank() == 0) {
      for (int polls = 0; polls < 2000; ++polls) transport->poll(arrived);
      empty = transport->state();
      pending = transport->pending_puts();
    }
    bootstrap.barrier();
  });
  CHECK(taken == 26);
  CHECK(arrivals == 26);
  CHECK(pending == 0);
  CHECK_THAT(full, test::contains("rail 0, fake0: 0 of 3 puts in flight, no credit from rank 1 (26 puts not read)"));
  CHECK_THAT(full, test::contains("0 queue errors"));
  CHECK_THAT(empty, !test::contains("no credit from"));
  check_clean(network);
}

TEST_CASE("a progress thread makes room while its rank does something else", "[transport]") {
  test::FakeNetwork network;
  std::size_t arrivals = 0;
  test::run_ranks(2, [&](Bootstrap& bootstrap) {
    const auto transport = with_progress_thread(over(network, bootstrap, 1));
    const AlignedBuffer memory(64);
    const RegionId region = transport->expose(memory.bytes());
    std::vector<std::uint32_t> arrived;
    if (bootstrap.rank() == 0) {
      // Far more than fit, to a rank that waits in a barrier.
      for (int puts = 0; puts < 500;) {
        if (transport->try_put({1, region, 0, region, 0, 8, immediate_of(3, 0)})) {
          ++puts;
        } else {
          sched_yield();
        }
      }
      while (transport->pending_puts() > 0) sched_yield();
    }
    bootstrap.barrier();
    if (bootstrap.rank() == 1) {
      while (arrived.size() < 500) transport->poll(arrived);
      arrivals = arrived.size();
    }
    bootstrap.barrier();
  });
  CHECK(arrivals == 500);
  check_clean(network);
}

TEST_CASE("what fails in a progress thread is thrown by the next call", "[transport]") {
  class Failing final : public Transport {
   public:
    const TransportCapabilities& capabilities() const override { return capabilities_; }
    RegionId expose(std::span<std::byte>) override { return 0; }
    void withdraw(RegionId) override {}
    bool try_put(const Put&) override { return true; }
    void poll(std::vector<std::uint32_t>&) override {
      throw Error(ErrorKind::environment, "the cable is cut", "mend it");
    }
    std::size_t pending_puts() const override { return 0; }
    std::string state() const override { return "failing"; }

   private:
    TransportCapabilities capabilities_;
  };
  const auto transport = with_progress_thread(std::make_unique<Failing>());
  while (transport->state() == "failing") sched_yield();
  CHECK(transport->state() == "failing; the progress thread has failed");
  CHECK_THROWS_WITH(transport->try_put({}), test::contains("the cable is cut"));
}

TEST_CASE("long puts are striped over the rails and counted, short ones take turns", "[transport]") {
  constexpr std::size_t kBytes = 4 << 20;
  test::FakeNetwork network;
  std::vector<int> right(2);
  std::vector<std::uint64_t> puts;
  std::vector<std::size_t> pieces;
  test::run_ranks(2, [&](Bootstrap& bootstrap) {
    const auto transport = over(network, bootstrap, 2);
    Channel channel(*transport, bootstrap, 30);
    const AlignedBuffer memory(2 * kBytes);
    const RegionId region = channel.expose(memory.bytes());
    const int peer = bootstrap.rank() ^ 1;
    for (std::size_t i = 0; i < kBytes; ++i) memory.data()[i] = static_cast<std::byte>((i >> 3) * 7 + i);
    const Tag tag = channel.next_tag();
    channel.put(peer, {region, 0}, {region, kBytes}, kBytes - 1, tag, "dispatch");
    channel.wait_arrivals(tag, std::vector<std::size_t>(2, kBytes - 1), "dispatch");
    channel.wait_sent("dispatch");
    right[static_cast<std::size_t>(bootstrap.rank())] =
        std::equal(memory.data(), memory.data() + kBytes - 1, memory.data() + kBytes) &&
        memory.data()[2 * kBytes - 1] == std::byte{0};
    if (bootstrap.rank() == 0) {
      puts.push_back(channel.traffic().puts);
      pieces = {channel.pieces(1), channel.pieces((128 << 10) - 1), channel.pieces(128 << 10),
                channel.pieces((128 << 10) + 1), channel.pieces(0)};
    }
    bootstrap.barrier();
  });
  CHECK(right == std::vector<int>{1, 1});
  CHECK(puts == std::vector<std::uint64_t>{2});
  CHECK(pieces == std::vector<std::size_t>{1, 1, 2, 2, 0});
  check_clean(network);
}

TEST_CASE("a queue too short for all ranks is refused, and so is an immediate that does not fit", "[transport]") {
  const auto text_with = [](const test::FakeProviderOptions& options) {
    test::FakeNetwork network(options);
    std::string text;
    test::run_ranks(3, [&](Bootstrap& bootstrap) {
      try {
        over(network, bootstrap, 1);
      } catch (const Error& error) {
        if (bootstrap.rank() == 0) text = error.what();
      }
      bootstrap.barrier();
    });
    CHECK(network.open_objects() == 0);
    return text;
  };
  // 3 own puts, 1 own credit, and a window of 2 and 2 credits of each of two peers.
  CHECK_THAT(
      text_with({.queue_places_max = 11}),
      test::contains("no completion queue of 12 places, which 3 ranks need") && test::contains("fix: use fewer"));
  CHECK(text_with({.queue_places_max = 12}).empty());
  CHECK_THAT(text_with({.cq_data_size = 2}), test::contains("carries 2 bytes with a write, and 4 are needed"));
}

TEST_CASE("a queue is shared out among own writes, windows and credits", "[transport]") {
  // A usual provider and 4 ranks: 2 credits to each of 3 peers, and as many puts as are useful.
  const RailRoom usual = RailRoom::share(1024, 4);
  CHECK(usual.credits == 6);
  CHECK(usual.puts == 256);
  CHECK(usual.places(256, 4) == 256 + 6 + 3 * 258);
  CHECK(usual.window(usual.places(256, 4), 4) == 256);
  // An odd window is rounded down: it is credited in halves. (100 + 6 + 256 - 262) / 3 is 33, less 2 credits 31.
  CHECK(usual.window(362, 4) == 30);
  // A quarter of a short queue of operations is for credits.
  const RailRoom small = RailRoom::share(4, 512);
  CHECK(small.credits == 1);
  CHECK(small.puts == 3);
  CHECK(RailRoom::share(1, 2).puts == 1);
  for (const std::size_t ranks : {2, 3, 64}) {
    CHECK(small.window(small.places(RailRoom::kWindowMin, ranks), ranks) == RailRoom::kWindowMin);
  }
}
