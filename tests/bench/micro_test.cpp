#include "bench/micro.hpp"

#include <map>
#include <mutex>

#include "bench/micro_bench.hpp"
#include "dispatch/routing_source.hpp"
#include "dispatch/traffic_model.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

constexpr int kRanks = 2;

Config small_config(const std::string& dispatcher) {
  Config config;
  config.ranks = kRanks;
  config.model.hidden = 64;
  config.model.experts = 8;
  config.model.top_k = 3;
  config.dispatcher.name = dispatcher;
  config.transport.name = "loopback";
  return config;
}

MicroSpec small_spec(MicroOperation operation) {
  return {.operation = operation, .sizes = {1, 5 * 256, 40 * 256}, .launches = 2, .warmup = 1, .iterations = 4};
}

MicroRecord run(const MicroSpec& spec, const std::vector<MicroVariant>& variants) {
  MicroRecord first;
  run_ranks(kRanks, [&](Bootstrap& bootstrap) {
    const SteadyClock clock;
    const MicroHooks hooks{
        .interrupted = [] { return false; }, .save = [](const MicroRecord&) {}, .progress = [](const std::string&) {}};
    MicroRecord record = run_micro(spec, variants, {}, {bootstrap, clock, 0, 1}, hooks);
    if (bootstrap.rank() == 0) first = std::move(record);
  });
  return first;
}

// Flips a bit in the middle of every long put, on the way.
class Flipping final : public Transport {
 public:
  explicit Flipping(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}

  const TransportCapabilities& capabilities() const override { return inner_->capabilities(); }
  RegionId expose(std::span<std::byte> memory) override {
    regions_.push_back(memory);
    return inner_->expose(memory);
  }
  void withdraw(RegionId region) override { inner_->withdraw(region); }
  bool try_put(const Put& put) override {
    std::byte& middle = regions_[put.source_region][put.source_offset_bytes + put.bytes / 2];
    const auto flip = static_cast<std::byte>(put.bytes >= kLong ? 0x40 : 0);
    middle ^= flip;
    const bool is_taken = inner_->try_put(put);
    middle ^= flip;
    return is_taken;
  }
  void poll(std::vector<std::uint32_t>& arrived) override { inner_->poll(arrived); }
  std::size_t pending_puts() const override { return inner_->pending_puts(); }
  std::string state() const override { return inner_->state(); }

 private:
  static constexpr std::size_t kLong = 256;  // a row, and longer than counts
  std::unique_ptr<Transport> inner_;
  std::vector<std::span<std::byte>> regions_;
};

using MakeBench = std::unique_ptr<MicroBench> (*)(Channel&, const LaunchContext&, const MicroSpec&, const Config&);

// What one iteration of the last size gets wrong, over all ranks.
std::uint64_t wrong_in_one_iteration(const MicroSpec& spec, MakeBench make, bool flips) {
  std::mutex mutex;
  std::uint64_t wrong = 0;
  run_ranks(kRanks, [&](Bootstrap& bootstrap) {
    const SteadyClock clock;
    auto transport = make_transport("loopback", bootstrap, {});
    if (flips) transport = std::make_unique<Flipping>(std::move(transport));
    Channel channel(*transport, bootstrap, 60);
    const LaunchContext context{bootstrap, clock, 0, 1};
    const Config config = small_config("alltoall");
    const auto bench = make(channel, context, spec, config);
    bench->prepare(spec.sizes.size() - 1);
    bench->before(0);
    bootstrap.barrier();
    bench->run();
    const std::uint64_t mine = bench->count_wrong();
    bootstrap.barrier();
    const std::lock_guard lock(mutex);
    wrong += mine;
  });
  return wrong;
}

}  // namespace

TEST_CASE("every dispatcher's operations are measured and right, fresh and cached", "[bench]") {
  for (const MicroOperation operation : {MicroOperation::dispatch, MicroOperation::combine, MicroOperation::pair}) {
    std::vector<MicroVariant> variants;
    for (const RegistryLine& line : dispatcher_lines()) {
      if (line.name != "reference") variants.push_back({.label = line.name, .config = small_config(line.name)});
    }
    MicroSpec spec = small_spec(operation);
    spec.routes = GENERATE(RouteUse::fresh, RouteUse::cached);
    const MicroRecord record = run(spec, variants);
    CHECK(record.status == "ok");
    CHECK(record.tokens == std::vector<std::int64_t>{1, 5, 40});  // rows of 64 x 4 bytes; at least one
    CHECK(exit_code_of(record) == 0);
    for (const MicroResult& result : record.results) {
      INFO(micro_operation_text(operation) << " " << result.variant.label);
      REQUIRE(result.samples.size() == 3);
      for (const auto& launches : result.samples) {
        REQUIRE(launches.size() == 2);
        CHECK(launches[0].slowest_ns.size() == 4);
        CHECK(launches[0].slowest_ns >= launches[0].fastest_ns);
        CHECK(launches[0].wrong + launches[1].wrong == 0);
        CHECK((launches[0].period_ns > 0) == (operation == MicroOperation::pair));
      }
    }
  }
}

TEST_CASE("rounding for the wire is seen as a part of the time", "[bench]") {
  Config config = small_config("alltoall");
  config.dispatcher.dispatch_dtype = config.dispatcher.combine_dtype = "fp8";
  const MicroRecord record = run(small_spec(MicroOperation::pair), {{.label = "a", .config = config}});
  const MicroFigures figures = micro_figures(record.results[0].samples[2]);
  CHECK(figures.wrong == 0);
  CHECK(figures.cast_us > 0);
  CHECK(figures.cast_us <= figures.p99_us);
}

// The logical bytes are those of the routing that was drawn: counted here from the same law.
TEST_CASE("logical bytes are those of the copies that leave the busiest rank", "[bench]") {
  const MicroSpec spec = small_spec(MicroOperation::dispatch);
  const MicroRecord record = run(spec, {{.label = "alltoall", .config = small_config("alltoall")}});
  const ExpertPlacement placement{.expert_count = 8, .rank_count = kRanks};
  const auto source = make_routing_source("uniform", {.expert_count = 8, .rank_count = kRanks, .top_k = 3, .seed = 1});
  double busiest = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    double bytes = 0;
    // Launch 0, size 2: its indices begin at 2 x (1 + 4 + 4); the first is a warm-up.
    for (std::uint64_t index = 19; index < 23; ++index) {
      const RankRouting routing = source->draw(index, rank, 40);
      const auto rows = count_rows({.expert_ids = routing.expert_ids, .top_k = 3}, placement, rank);
      bytes += static_cast<double>(rows.off_rank.per_copy) * (64 * 4 + 4);  // and its gate
    }
    busiest = std::max(busiest, bytes / 4);
  }
  CHECK(record.results[0].samples[2][0].logical_bytes_max == busiest);
}

TEST_CASE("transports are measured between pairs and between all", "[bench]") {
  MicroSpec spec = small_spec(MicroOperation::transport);
  spec.repeats = 3;
  MicroRecord record = run(spec, {{.label = "loopback", .config = small_config("alltoall")}});
  CHECK(record.status == "ok");
  CHECK(record.tokens.empty());
  CHECK(record.results[0].samples[1][0].period_ns > 0);
  CHECK(micro_figures(record.results[0].samples[2]).wrong == 0);

  spec = small_spec(MicroOperation::alltoallv);
  spec.imbalance = 0.5;
  spec.repeats = 2;
  record = run(spec, {{.label = "loopback", .config = small_config("alltoall")}});
  CHECK(record.status == "ok");
  const MicroSample& sample = record.results[0].samples[2][0];
  CHECK(sample.wrong == 0);
  CHECK(sample.wire_bytes_max > 2 * 0.5 * 40 * 256);
  CHECK(sample.wire_bytes_max < 2 * 1.5 * 40 * 256);
}

TEST_CASE("one flipped bit is counted as wrong, in every operation", "[bench]") {
  using enum MicroOperation;
  const std::map<MicroOperation, MakeBench> benches = {{dispatch, make_dispatch_bench},
                                                       {combine, make_dispatch_bench},
                                                       {pair, make_dispatch_bench},
                                                       {transport, make_transport_bench},
                                                       {alltoallv, make_alltoallv_bench}};
  for (const auto& [operation, make] : benches) {
    INFO(micro_operation_text(operation));
    CHECK(wrong_in_one_iteration(small_spec(operation), make, false) == 0);
    CHECK(wrong_in_one_iteration(small_spec(operation), make, true) > 0);
  }
}

TEST_CASE("a variant that cannot be set up is a failed result, and wrong results beat it", "[bench]") {
  Config missing = small_config("alltoall");
  missing.transport.name = "carrier pigeon";
  MicroRecord record = run(small_spec(MicroOperation::pair), {{.label = "good", .config = small_config("alltoall")},
                                                              {.label = "bad", .config = missing}});
  CHECK(record.status == "partial");
  CHECK(exit_code_of(record) == 7);
  CHECK(record.results[1].status == ResultStatus::failed);
  CHECK_THAT(record.results[1].reason, contains("carrier pigeon"));
  record.results[0].samples[0][0].wrong = 1;
  CHECK(exit_code_of(record) == 4);
}

// Launch medians 2, 4 and 9 us: their median is 4. Within a launch of 1 to 5 us: p95 is 4.8, p99 is 4.96.
TEST_CASE("figures are medians over launches of each launch's own", "[bench]") {
  const auto launch = [](std::vector<std::int64_t> ns) {
    return MicroSample{.slowest_ns = ns, .fastest_ns = {1000}, .cast_ns = {0}};
  };
  const MicroFigures figures = micro_figures({launch({9000}), launch({1000, 2000, 3000}), launch({4000})});
  CHECK(figures.p50_us == 4);
  CHECK(figures.launch_min_us == 2);
  CHECK(figures.launch_max_us == 9);
  CHECK(figures.spread_ratio == 4);
  const MicroFigures one = micro_figures({launch({1000, 2000, 3000, 4000, 5000})});
  CHECK(one.p95_us == Approx(4.8));
  CHECK(one.p99_us == Approx(4.96));
}

// Half the time in every launch is twice the speed, exactly.
TEST_CASE("variants are compared launch by launch", "[bench]") {
  std::vector<MicroSample> baseline, variant;
  for (const std::int64_t us : {10, 30, 20}) {
    baseline.push_back({.slowest_ns = {us * 1000}});
    variant.push_back({.slowest_ns = {us * 500}});
  }
  const RatioEstimate ratio = micro_ratio(variant, baseline);
  CHECK(ratio.ratio == Approx(2));
  CHECK(ratio.low == Approx(2));
  CHECK(ratio.verdict == Verdict::faster);
}
