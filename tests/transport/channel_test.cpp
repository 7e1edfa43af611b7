#include "transport/channel.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/aligned_buffer.hpp"
#include "base/clock.hpp"
#include "base/units.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

namespace {

using namespace mrb;

// Loopback that takes ten bytes at once, two puts in flight, and delivers immediates last first.
class Difficult final : public Transport {
 public:
  explicit Difficult(Bootstrap& bootstrap) : inner_(make_transport("loopback", bootstrap, {})) {
    capabilities_ = inner_->capabilities();
    capabilities_.put_bytes_max = 10;
  }
  const TransportCapabilities& capabilities() const override { return capabilities_; }
  RegionId expose(std::span<std::byte> memory) override { return inner_->expose(memory); }
  void withdraw(RegionId region) override { inner_->withdraw(region); }
  bool try_put(const Put& put) override {
    if (taken_ == 2) return false;
    ++taken_;
    return inner_->try_put(put);
  }
  void poll(std::vector<std::uint32_t>& arrived) override {
    taken_ = 0;
    inner_->poll(arrived);
    std::reverse(arrived.begin(), arrived.end());
  }
  std::size_t pending_puts() const override { return 0; }
  std::string state() const override { return "difficult"; }

 private:
  std::unique_ptr<Transport> inner_;
  TransportCapabilities capabilities_;
  std::size_t taken_ = 0;
};

// One rank's end of a channel, with a region of `bytes`.
struct End {
  End(Bootstrap& bootstrap, Transport& transport, std::size_t bytes, double timeout_s)
      : channel(transport, bootstrap, timeout_s), memory(bytes), region(channel.expose(memory.bytes())) {}
  Channel channel;
  AlignedBuffer memory;
  RegionId region;
};

}  // namespace

TEST_CASE("a long put goes in pieces and is counted whole, whatever the order", "[transport]") {
  std::vector<std::uint64_t> puts(2);
  std::vector<std::uint64_t> retries(2);
  std::vector<int> right(2);
  test::run_ranks(2, [&](Bootstrap& bootstrap) {
    Difficult transport(bootstrap);
    End end(bootstrap, transport, 200, 10);
    const auto me = static_cast<std::size_t>(bootstrap.rank());
    std::fill_n(end.memory.data(), 95, static_cast<std::byte>(me + 1));
    const Tag tag = end.channel.next_tag();
    end.channel.put(bootstrap.rank() ^ 1, {end.region, 0}, {end.region, 100}, 95, tag, "dispatch");
    end.channel.wait_arrivals(tag, std::vector<std::size_t>(2, 95), "dispatch");
    end.channel.wait_sent("dispatch");
    const auto peer = static_cast<std::byte>((me ^ 1) + 1);
    right[me] = static_cast<int>(std::count(end.memory.data() + 100, end.memory.data() + 200, peer));
    puts[me] = end.channel.traffic().puts;
    retries[me] = end.channel.traffic().retries;
    bootstrap.barrier();
  });
  CHECK(right == std::vector<int>{95, 95});
  CHECK(puts == std::vector<std::uint64_t>{10, 10});   // nine of 10 bytes and one of 5
  CHECK(retries == std::vector<std::uint64_t>{4, 4});  // every second put but the first finds it full
}

TEST_CASE("arrivals of different exchanges do not mix", "[transport]") {
  std::vector<std::string> log(2);
  test::run_ranks(2, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    End end(bootstrap, *transport, 64, 0.2);
    const Tag first = end.channel.next_tag();
    const Tag second = end.channel.next_tag();
    const std::vector<std::size_t> one_byte(2, 1);
    if (bootstrap.rank() == 0) {
      end.channel.put(1, {end.region, 0}, {end.region, 0}, 1, second, "combine");
    } else {
      end.channel.wait_arrivals(second, one_byte, "combine");
      try {
        end.channel.wait_arrivals(first, one_byte, "dispatch");
      } catch (const Error& error) {
        log[1] = error.what();
      }
    }
    bootstrap.barrier();
  });
  CHECK_THAT(log[1], test::contains("dispatch") && test::contains("rank 0 (0 of 1 puts arrived)"));
}

TEST_CASE("a silent peer ends the wait with its rank, the operation and the counts", "[transport]") {
  std::string text;
  ErrorKind kind = ErrorKind::internal;
  std::int64_t waited_ns = 0;
  test::run_ranks(3, [&](Bootstrap& bootstrap) {
    Difficult transport(bootstrap);
    End end(bootstrap, transport, 64, 0.2);
    const Tag tag = end.channel.next_tag();
    if (bootstrap.rank() == 1) end.channel.put(0, {end.region, 0}, {end.region, 0}, 25, tag, "dispatch");
    if (bootstrap.rank() == 2) end.channel.put(0, {end.region, 0}, {end.region, 32}, 10, tag, "dispatch");
    if (bootstrap.rank() == 0) {
      const std::int64_t began_ns = steady_now_ns();
      try {
        end.channel.wait_arrivals(tag, std::vector<std::size_t>{0, 25, 25}, "dispatch");
      } catch (const Error& error) {
        text = error.what();
        kind = error.kind();
      }
      waited_ns = steady_now_ns() - began_ns;
    }
    bootstrap.barrier();
  });
  CHECK(kind == ErrorKind::timeout);
  CHECK_THAT(text, test::contains("dispatch: waited 0.2 s for rank 2 (1 of 3 puts arrived)"));
  CHECK_THAT(text, !test::contains("rank 1"));
  CHECK_THAT(text, test::contains("fix: look at rank 2 first"));
  CHECK(waited_ns >= s_to_ns(0.2));
}

TEST_CASE("a peer that takes nothing ends the put with its rank and the operation", "[transport]") {
  class Full final : public Transport {
   public:
    explicit Full(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
    const TransportCapabilities& capabilities() const override { return inner_->capabilities(); }
    RegionId expose(std::span<std::byte> memory) override { return inner_->expose(memory); }
    void withdraw(RegionId region) override { inner_->withdraw(region); }
    bool try_put(const Put&) override { return false; }
    void poll(std::vector<std::uint32_t>& arrived) override { inner_->poll(arrived); }
    std::size_t pending_puts() const override { return 3; }
    std::string state() const override { return "full"; }

   private:
    std::unique_ptr<Transport> inner_;
  };
  std::vector<std::string> texts(2);
  test::run_ranks(2, [&](Bootstrap& bootstrap) {
    Full transport(make_transport("loopback", bootstrap, {}));
    End end(bootstrap, transport, 64, 0.2);
    const Tag tag = end.channel.next_tag();
    if (bootstrap.rank() == 0) {
      try {
        end.channel.put(1, {end.region, 0}, {end.region, 0}, 8, tag, "combine");
      } catch (const Error& error) {
        texts[0] = error.what();
      }
      try {
        end.channel.wait_sent("combine");
      } catch (const Error& error) {
        texts[1] = error.what();
      }
    }
    bootstrap.barrier();
  });
  CHECK_THAT(texts[0], test::contains("combine: waited 0.2 s to send 8 bytes to rank 1; 3 earlier puts"));
  CHECK_THAT(texts[1], test::contains("combine: waited 0.2 s for 3 own puts"));
}

TEST_CASE("bytes are counted by the rank they went to", "[transport]") {
  std::vector<std::uint64_t> bytes_to;
  test::run_ranks(3, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    End end(bootstrap, *transport, 64, 10);
    const Tag tag = end.channel.next_tag();
    if (bootstrap.rank() == 1) {
      end.channel.put(0, {end.region, 0}, {end.region, 0}, 5, tag, "dispatch");
      end.channel.put(2, {end.region, 0}, {end.region, 0}, 7, tag, "dispatch");
      end.channel.put(2, {end.region, 0}, {end.region, 0}, 0, tag, "dispatch");
      bytes_to = end.channel.traffic().bytes_to;
    }
    bootstrap.barrier();
  });
  CHECK(bytes_to == std::vector<std::uint64_t>{5, 0, 7});
}

TEST_CASE("the rank that others wait for is known", "[transport]") {
  std::vector<std::vector<std::int64_t>> late_ns(4);
  test::run_ranks(4, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    End end(bootstrap, *transport, 64, 10);
    const Tag tag = end.channel.next_tag();
    bootstrap.barrier();
    if (bootstrap.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (int peer = 0; peer < 4; ++peer) {
      if (peer != bootstrap.rank()) end.channel.put(peer, {end.region, 0}, {end.region, 0}, 5, tag, "dispatch");
    }
    end.channel.wait_puts(tag, std::vector<std::size_t>(4, 1), "dispatch");
    late_ns[static_cast<std::size_t>(bootstrap.rank())] = end.channel.traffic().late_ns;
    bootstrap.barrier();
  });
  for (const std::size_t rank : {0, 1, 3}) {
    for (const std::size_t peer : {0, 1, 3}) CHECK(late_ns[rank][2] > late_ns[rank][peer]);
  }
}

TEST_CASE("what nobody waited for has arrived all the same once a channel is drained", "[transport]") {
  std::vector<std::size_t> late(3, 99);
  test::run_ranks(3, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {.chaos = {.seed = 5}});
    End end(bootstrap, *transport, 64, 30);
    const Tag tag = end.channel.next_tag();
    for (int i = 0; i < 20; ++i) {
      for (int peer = 0; peer < 3; ++peer) {
        if (peer != bootstrap.rank()) end.channel.put(peer, {end.region, 0}, {end.region, 8}, 8, tag, "unasked");
      }
    }
    end.channel.drain(bootstrap);  // more of them than chaos lets wait: whoever is there first must go on taking them
    const std::vector<std::size_t> all = {20, 20, 20};
    late[static_cast<std::size_t>(bootstrap.rank())] = end.channel.try_take_puts(tag, all) ? 0 : 1;
    bootstrap.barrier();
  });
  CHECK(late == std::vector<std::size_t>{0, 0, 0});
}
