// The memory that each dispatcher says it needs, against what it really registers with its transport.
#include <algorithm>
#include <map>
#include <mutex>

#include "dispatch/conformance.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

namespace mrb::test {

namespace {

// A transport that counts the memory exposed through it.
class Counting final : public Transport {
 public:
  explicit Counting(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  std::uint64_t bytes_max() const { return bytes_max_; }

  const TransportCapabilities& capabilities() const override { return inner_->capabilities(); }
  RegionId expose(std::span<std::byte> memory) override {
    const RegionId region = inner_->expose(memory);
    bytes_of_[region] = memory.size();
    bytes_ += memory.size();
    bytes_max_ = std::max(bytes_max_, bytes_);
    return region;
  }
  void withdraw(RegionId region) override {
    bytes_ -= bytes_of_.at(region);
    bytes_of_.erase(region);
    inner_->withdraw(region);
  }
  bool try_put(const Put& put) override { return inner_->try_put(put); }
  void poll(std::vector<std::uint32_t>& arrived) override { inner_->poll(arrived); }
  std::size_t pending_puts() const override { return inner_->pending_puts(); }
  std::string state() const override { return inner_->state(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::map<RegionId, std::uint64_t> bytes_of_;
  std::uint64_t bytes_ = 0, bytes_max_ = 0;
};

struct Shape {
  int experts_per_rank;
  int top_k;
  std::int64_t tokens;
  std::int64_t hidden;
  WireType wire;
};

struct Memory {
  std::uint64_t registered = 0;
  DispatcherCapabilities capabilities;
};

// By rank, at the most: one fresh dispatch and one combine of as many tokens as there may be, routed uniformly.
std::vector<Memory> memory_of(const Kernel& kernel, int ranks, const Shape& shape) {
  const auto made = make_case({.name = "uniform",
                               .tokens = [&](int) { return shape.tokens; },
                               .hidden = shape.hidden,
                               .experts_per_rank = shape.experts_per_rank,
                               .top_k = shape.top_k},
                              ranks, 1);
  std::vector<Memory> memory(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Bootstrap& bootstrap) {
    const auto me = static_cast<std::size_t>(bootstrap.rank());
    Counting transport(make_transport("loopback", bootstrap, {}));
    Channel channel(transport, bootstrap, 60);
    DispatcherOptions options{.hidden = shape.hidden,
                              .placement = made.placement,
                              .top_k = shape.top_k,
                              .dispatch_wire = shape.wire,
                              .combine_wire = shape.wire,
                              .tokens_max = shape.tokens};
    kernel.set(options);
    {
      const auto dispatcher = make_dispatcher(kernel.name, channel, options);
      const auto route = dispatcher->route({.expert_ids = made.routing[me].expert_ids, .top_k = shape.top_k});
      std::vector<float> tokens(static_cast<std::size_t>(shape.tokens * shape.hidden)),
          values(made.routing[me].expert_ids.size());
      dispatcher->dispatch_send(*route, {tokens.data(), values.data()}, Values::sent);
      dispatcher->settle(*route);
      std::vector<float> rows(static_cast<std::size_t>(route->row_count * shape.hidden)),
          row_values(static_cast<std::size_t>(route->row_count));
      dispatcher->dispatch_wait(*route, {rows.data(), row_values.data()});
      dispatcher->combine(*route, {rows.data(), row_values.data()}, {tokens.data(), values.data()}, Values::sent);
      memory[me] = {transport.bytes_max(), dispatcher->capabilities()};
    }
    bootstrap.barrier();
  });
  return memory;
}

}  // namespace

TEST_CASE("every dispatcher registers as much memory as it says, within 5%", "[dispatch]") {
  const int ranks = GENERATE(1, 2, 4, 8);
  // Many tokens, so that what each rank receives is near what is expected.
  const Shape shapes[] = {
      {8, 6, 1536, 32, WireType::native}, {8, 6, 1536, 32, WireType::fp8}, {2, 2, 2000, 129, WireType::bf16}};
  for (const Shape& shape : shapes) {
    for (const Kernel& kernel : kernels(ranks, ranks == 4 ? Options::all : Options::some)) {
      const auto memory = memory_of(kernel, ranks, shape);
      for (std::size_t rank = 0; rank < memory.size(); ++rank) {
        INFO(kernel.text << ", rank " << rank << " of " << ranks << ", top " << shape.top_k << ", "
                         << wire_type_text(shape.wire) << ": " << memory[rank].capabilities.buffer_formula);
        const auto said = static_cast<double>(memory[rank].capabilities.buffer_bytes);
        CHECK(static_cast<double>(memory[rank].registered) == Approx(said).epsilon(0.05));
      }
    }
  }
}

}  // namespace mrb::test
