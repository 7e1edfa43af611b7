// The fake provider refuses what EFA refuses. Each test breaks one rule, by libfabric's own calls, and all else is as
// it should be.
#include "transport/fake_provider.hpp"

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <array>

#include "base/aligned_buffer.hpp"
#include "support/catch.hpp"

using namespace mrb;
using test::FakeNetwork;

namespace {

// One rank's end, with a region of 256 bytes.
struct End {
  explicit End(FakeNetwork& network)
      : domain(network.open(0)), memory(256), region(expose(memory)), endpoint(domain, 2, {16, 16}) {}

  LibfabricObject<fid_mr> expose(const AlignedBuffer& bytes) {
    fid_mr* made = nullptr;
    REQUIRE(fi_mr_reg(domain.domain.get(), bytes.data(), bytes.size(), FI_WRITE | FI_REMOTE_WRITE, 0, 7, 0, &made,
                      nullptr) == 0);
    return LibfabricObject<fid_mr>(made);
  }

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory.data()); }

  LibfabricDomain domain;
  AlignedBuffer memory;
  LibfabricObject<fid_mr> region;
  LibfabricEndpoint endpoint;
};

struct Pair {
  explicit Pair(test::FakeProviderOptions options = {}) : network(options), a(network), b(network) {
    a.endpoint.add_peers(addresses());
    b.endpoint.add_peers(addresses());
    desc = fi_mr_desc(a.region.get());
    key = fi_mr_key(b.region.get());
    at = b.address();
  }

  std::vector<std::vector<std::byte>> addresses() { return {a.endpoint.address(), b.endpoint.address()}; }

  // Of 8 bytes from a to b, by the members below.
  ssize_t write(std::size_t context) {
    return fi_writedata(a.endpoint.endpoint(), a.memory.data(), 8, desc, data, a.endpoint.peer(1), at, key,
                        &contexts[context]);
  }

  // Lets everything land. Returns the provider's number of the error that came, or 0.
  int settle() {
    int error = 0;
    for (int polls = 0; polls < 200; ++polls) {
      for (End* end : {&a, &b}) {
        if (end == &b && !b_reads) continue;
        fi_cq_data_entry event = {};
        const auto got = fi_cq_read(end->endpoint.queue(), &event, 1);
        if (got == 1) events.push_back(event);
        if (got != -FI_EAVAIL) continue;
        fi_cq_err_entry failure = {};
        REQUIRE(fi_cq_readerr(end->endpoint.queue(), &failure, 0) == 1);
        error = failure.prov_errno;
      }
    }
    return error;
  }

  FakeNetwork network;
  End a;
  End b;
  std::array<fi_context2, 40> contexts = {};
  void* desc = nullptr;
  std::uint64_t key = 0;
  std::uint64_t at = 0;
  std::uint64_t data = 0xABCD1234;
  bool b_reads = true;
  std::vector<fi_cq_data_entry> events;
};

}  // namespace

TEST_CASE("the fake provider carries a write that is as it should be", "[transport]") {
  Pair pair;
  pair.a.memory.data()[0] = std::byte{42};
  REQUIRE(pair.write(0) == 0);
  CHECK(pair.settle() == 0);
  REQUIRE(pair.events.size() == 2);
  const auto arrived = std::find_if(pair.events.begin(), pair.events.end(),
                                    [](const auto& event) { return (event.flags & FI_REMOTE_WRITE) != 0; });
  REQUIRE(arrived != pair.events.end());
  CHECK(arrived->data == 0xABCD1234);
  CHECK(pair.b.memory.data()[0] == std::byte{42});
  CHECK(pair.network.faults().empty());
}

TEST_CASE("the fake provider demands the descriptor of the source's registration", "[transport]") {
  Pair pair;
  pair.desc = nullptr;
  CHECK(pair.write(0) == -FI_EINVAL);
  pair.desc = fi_mr_desc(pair.b.region.get());
  CHECK(pair.write(0) == -FI_EINVAL);
  const AlignedBuffer other(256);
  const auto registration = pair.a.expose(other);
  pair.desc = fi_mr_desc(registration.get());
  CHECK(pair.write(0) == -FI_EINVAL);
}

TEST_CASE("the fake provider demands its own keys, and addresses inside the region", "[transport]") {
  Pair pair;
  const auto error_of_write = [&] {
    REQUIRE(pair.write(0) == 0);
    return pair.settle();
  };
  const std::uint64_t key = pair.key;
  pair.key = 7;  // the one that was asked for
  CHECK(error_of_write() == 7);
  pair.key = key;
  pair.at = 0;  // an offset
  CHECK(error_of_write() == 7);
  pair.at = pair.b.address() + 249;
  CHECK(error_of_write() == 7);
  pair.at = pair.b.address() + 248;
  CHECK(error_of_write() == 0);
  CHECK(pair.network.faults().empty());
}

TEST_CASE("the fake provider takes nothing from strangers", "[transport]") {
  FakeNetwork network;
  End a(network);
  End b(network);
  a.endpoint.add_peers(std::vector{a.endpoint.address(), b.endpoint.address()});
  fi_context2 context = {};
  REQUIRE(fi_writedata(a.endpoint.endpoint(), a.memory.data(), 8, fi_mr_desc(a.region.get()), 1, a.endpoint.peer(1),
                       b.address(), fi_mr_key(b.region.get()), &context) == 0);
  ssize_t code = -FI_EAGAIN;
  fi_cq_data_entry event = {};
  for (int polls = 0; polls < 200 && code == -FI_EAGAIN; ++polls) code = fi_cq_read(a.endpoint.queue(), &event, 1);
  REQUIRE(code == -FI_EAVAIL);
  fi_cq_err_entry failure = {};
  REQUIRE(fi_cq_readerr(a.endpoint.queue(), &failure, 0) == 1);
  CHECK(failure.prov_errno == 14);
}

TEST_CASE("the fake provider carries four bytes with a write", "[transport]") {
  Pair pair;
  pair.data = std::uint64_t{1} << 32;
  CHECK(pair.write(0) == -FI_EINVAL);
}

TEST_CASE("the fake provider keeps a context to itself while its write is in flight", "[transport]") {
  Pair pair;
  REQUIRE(pair.write(0) == 0);
  CHECK(pair.write(0) == -FI_EINVAL);
  REQUIRE(pair.network.faults().size() == 1);
  CHECK_THAT(pair.network.faults()[0], test::contains("share a context"));

  Pair other;
  REQUIRE(other.write(0) == 0);
  other.contexts[0] = {};
  other.settle();
  REQUIRE(other.network.faults().size() == 1);
  CHECK_THAT(other.network.faults()[0], test::contains("changed by the caller"));
}

TEST_CASE("the fake provider takes few writes at a time, and short queues", "[transport]") {
  Pair pair;
  for (std::size_t context = 0; context < 4; ++context) CHECK(pair.write(context) == 0);
  CHECK(pair.write(4) == -FI_EAGAIN);
  pair.settle();
  CHECK(pair.write(4) == 0);

  fi_cq_attr options = {};
  options.size = 65;
  options.format = FI_CQ_FORMAT_DATA;
  fid_cq* queue = nullptr;
  CHECK(fi_cq_open(pair.a.domain.domain.get(), &options, &queue, nullptr) == -FI_EINVAL);
}

TEST_CASE("the fake provider loses what its queue has no place for", "[transport]") {
  Pair pair;
  pair.b_reads = false;
  for (std::size_t context = 0; context < 17; ++context) {
    REQUIRE(pair.write(context) == 0);
    pair.settle();
  }
  REQUIRE(pair.network.faults().size() == 1);
  CHECK_THAT(pair.network.faults()[0], test::contains("queue of 16 places has overflowed"));
}

TEST_CASE("the fake provider notices memory that is taken away too early", "[transport]") {
  Pair source;
  REQUIRE(source.write(0) == 0);
  source.a.region.reset();
  REQUIRE(source.network.faults().size() == 1);
  CHECK_THAT(source.network.faults()[0], test::contains("still needs it"));
}
