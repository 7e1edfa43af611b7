// The byte counts, against sums done by hand and against the expectation for uniform routing.
#include <mutex>

#include "dispatch/conformance.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

namespace mrb::test {

namespace {

struct BytesOfHalves {
  DispatchBytes route, dispatch, combine;
};

DispatcherOptions options_for(const RoutingCase& made) {
  return {.hidden = made.hidden,
          .placement = made.placement,
          .top_k = made.routing[0].top_k,
          .tokens_max = 1024,
          .prefix_rows = 1};
}

// What each rank put, with values (f32).
std::vector<BytesOfHalves> measure(const std::string& name, const RoutingCase& made, Dedup dedup = Dedup::rank) {
  std::vector<BytesOfHalves> measured(made.routing.size());
  run_ranks(static_cast<int>(made.routing.size()), [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    Channel channel(*transport, bootstrap, 30);
    const auto me = static_cast<std::size_t>(bootstrap.rank());
    const RankRouting& mine = made.routing[me];
    {
      DispatcherOptions options = options_for(made);
      options.dedup = dedup;
      const auto dispatcher = make_dispatcher(name, channel, options);
      const DispatchBytes start = dispatcher->bytes();
      const auto route = dispatcher->route({.expert_ids = mine.expert_ids, .top_k = mine.top_k});
      const DispatchBytes routed = dispatcher->bytes();
      std::vector<float> tokens(static_cast<std::size_t>(route->token_count * made.hidden)),
          values(mine.expert_ids.size());
      dispatcher->dispatch_send(*route, {tokens.data(), values.data()}, Values::sent);
      dispatcher->settle(*route);
      std::vector<float> rows(static_cast<std::size_t>(route->row_count * made.hidden)),
          row_values(static_cast<std::size_t>(route->row_count));
      dispatcher->dispatch_wait(*route, {rows.data(), row_values.data()});
      const DispatchBytes dispatched = dispatcher->bytes();
      dispatcher->combine(*route, {rows.data(), row_values.data()}, {tokens.data(), values.data()}, Values::sent);
      measured[me] = {routed - start, dispatched - routed, dispatcher->bytes() - dispatched};
    }
    bootstrap.barrier();
  });
  return measured;
}

void check_bytes(DispatchBytes bytes, std::uint64_t logical, std::uint64_t wire) {
  CHECK(bytes.logical == logical);
  CHECK(bytes.wire == wire);
}

// Experts 0 and 1 on rank 0, 2 and 3 on rank 1; hidden = 3, f32, so a row is 12 bytes and its value 4.
//   rank 0: token 0 -> 2, 3   token 1 -> 0, 3    3 copies in 2 rows leave
//   rank 1: token 0 -> 1, 2                      1 copy leaves
// Each exchange ends with a notice of 8 bytes to the other rank.
const RoutingCase kByHand{.name = "by hand",
                          .hidden = 3,
                          .placement = {.expert_count = 4, .rank_count = 2},
                          .routing = {{{2, 3, 0, 3}, 2}, {{1, 2}, 2}}};

}  // namespace

TEST_CASE("alltoall puts one row and one value for each copy that leaves", "[dispatch]") {
  const auto bytes = measure("alltoall", kByHand);
  for (const auto& rank : bytes) check_bytes(rank.route, 0, 4 * 8 + 8);  // counts of 4 experts
  check_bytes(bytes[0].dispatch, 3 * 16, 3 * 16 + 8);
  check_bytes(bytes[0].combine, 1 * 16, 1 * 16 + 8);
  check_bytes(bytes[1].dispatch, 1 * 16, 1 * 16 + 8);
  check_bytes(bytes[1].combine, 3 * 16, 3 * 16 + 8);
}

TEST_CASE("rank_dedup puts one row for each token and rank, and one value for each copy", "[dispatch]") {
  const auto bytes = measure("rank_dedup", kByHand);
  // Counts of 4 experts and 2 ranks; then 4 bytes for each row and each copy that leaves.
  check_bytes(bytes[0].route, 0, 6 * 8 + 8 + (2 + 3) * 4 + 8);
  check_bytes(bytes[1].route, 0, 6 * 8 + 8 + (1 + 1) * 4 + 8);
  check_bytes(bytes[0].dispatch, 3 * 16, 2 * 12 + 3 * 4 + 8);
  check_bytes(bytes[0].combine, 1 * 16, 1 * 12 + 1 * 4 + 8);
  check_bytes(bytes[1].dispatch, 1 * 16, 1 * 12 + 1 * 4 + 8);
  check_bytes(bytes[1].combine, 3 * 16, 2 * 12 + 3 * 4 + 8);
}

// Two nodes of two ranks, one expert each; the only token, of rank 0, is for experts 1, 2 and 3:
//   0 -> 2 (rail peer)    a record for experts 2 and 3; that for expert 1 stays on rank 0
//   0 -> 1, 2 -> 3        a row, its value, and 3 words: its source, how many copies, for which expert
TEST_CASE("proxy puts one row for each token and node, then one for each rank inside it", "[dispatch]") {
  const RoutingCase made{.name = "two nodes",
                         .hidden = 3,
                         .placement = {.expert_count = 4, .rank_count = 4, .ranks_per_node = 2},
                         .routing = {{{1, 2, 3}, 3}, {{}, 3}, {{}, 3}, {{}, 3}}};
  const auto bytes = measure("proxy", made, Dedup::node);
  const std::uint64_t record = 12 + 2 * 4 + 2 * 4, forwarded = 12 + 4 + 3 * 4;
  const std::uint64_t counts = (4 + 2 + 4) * 4, bare = 8;  // copies by expert, rows by node and by rank; a header
  for (const auto& rank : bytes) check_bytes(rank.route, 0, 0);
  check_bytes(bytes[0].dispatch, 3 * 16, 3 * (counts + bare) + record + forwarded);
  check_bytes(bytes[1].dispatch, 0, 3 * (counts + bare));
  check_bytes(bytes[2].dispatch, 0, 3 * (counts + bare) + forwarded);
  check_bytes(bytes[3].dispatch, 0, 3 * (counts + bare));
  CHECK(bytes[0].dispatch.wire_between_nodes == 2 * (counts + bare) + record);
  CHECK(bytes[2].dispatch.wire_between_nodes == 2 * (counts + bare));

  check_bytes(bytes[0].combine, 0, 3 * 2 * bare);
  check_bytes(bytes[1].combine, 16, 3 * 2 * bare + 12 + 4);
  check_bytes(bytes[2].combine, 16, 3 * 2 * bare + 12 + 2 * 4);  // one sum for its node
  check_bytes(bytes[3].combine, 16, 3 * 2 * bare + 12 + 4);
  CHECK(bytes[2].combine.wire_between_nodes == 2 * 2 * bare + 12 + 2 * 4);
  CHECK(bytes[3].combine.wire_between_nodes == 2 * 2 * bare);
}

TEST_CASE("ranks that have nothing for each other put no rows", "[dispatch]") {
  const RoutingCase apart{.name = "apart",
                          .hidden = 3,
                          .placement = {.expert_count = 4, .rank_count = 2},
                          .routing = {{{0, 1}, 2}, {{3, 2}, 2}}};
  const auto name = GENERATE("alltoall", "rank_dedup");
  for (const auto& rank : measure(name, apart)) {
    check_bytes(rank.dispatch, 0, 8);
    check_bytes(rank.combine, 0, 8);
  }
}

// A token's top_k = 8 different experts of 64, on 8 ranks, hit D = 8 (1 - C(56, 8) / C(64, 8)) ranks on
// average, of which 7/8 are others; its copies for others are 8 * 7/8 = 7.
TEST_CASE("on uniform routing rank_dedup puts as many fewer rows as the formula says", "[dispatch]") {
  double all_miss = 1;
  for (int i = 0; i < 8; ++i) all_miss *= static_cast<double>(56 - i) / (64 - i);
  const double rows_expected = 8 * (1 - all_miss) * 7 / 8;
  CHECK(rows_expected == Approx(4.755).epsilon(0.001));  // worked out on paper

  constexpr std::int64_t kTokens = 400;
  constexpr std::int64_t kHidden = 64;
  const auto made = make_case(
      {.name = "uniform", .tokens = [](int) { return kTokens; }, .hidden = kHidden, .experts_per_rank = 8, .top_k = 8},
      8, 1);
  const auto rows_per_token = [&](const std::string& name, double value_bytes_per_token) {
    double wire = 0;
    for (const auto& rank : measure(name, made)) wire += static_cast<double>(rank.dispatch.wire);
    const double notices = 8 * 7 * 8;
    return ((wire - notices) / (8 * kTokens) - value_bytes_per_token) / (kHidden * 4);
  };
  const double values = 7 * 4;
  CHECK(rows_per_token("alltoall", values) == Approx(7).epsilon(0.02));
  CHECK(rows_per_token("rank_dedup", values) == Approx(rows_expected).epsilon(0.02));
}

}  // namespace mrb::test
