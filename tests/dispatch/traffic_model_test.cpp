// Rows by pattern, counted and expected, against the tables that others have published.
#include "dispatch/traffic_model.hpp"

#include "dispatch/routing_cases.hpp"
#include "support/catch.hpp"

namespace mrb::test {

TEST_CASE("the distinct groups of a token follow the closed form", "[dispatch]") {
  // Worked out for 256 experts and top 8.
  const std::pair<int, double> known[] = {{2, 1.993}, {4, 3.614}, {8, 5.295}, {16, 6.523}, {32, 7.267}, {64, 7.676}};
  for (const auto& [groups, distinct] : known) {
    CHECK(expected_groups(256, 8, groups) == Approx(distinct).margin(0.0006));
  }
  CHECK(expected_groups(8, 8, 4) == 4);  // every expert, so every group
  CHECK(expected_groups(8, 1, 4) == 1);
}

TEST_CASE("rows that leave are counted from the routing", "[dispatch]") {
  // Two nodes of two ranks with two experts each. Rank 1 (node 0) has two tokens:
  //   experts 0, 2, 3 -> ranks 0, 1, 1    experts 4, 6, 7 -> ranks 2, 3, 3, both on node 1
  const std::vector<std::int32_t> experts = {0, 2, 3, 4, 6, 7};
  const ExpertPlacement placement{.expert_count = 8, .rank_count = 4, .ranks_per_node = 2};
  const RoutedRows rows = count_rows({experts, 3}, placement, 1);
  CHECK(rows.all.per_copy == 6);
  CHECK(rows.off_rank.per_copy == 4);
  CHECK(rows.off_node.per_copy == 3);
  CHECK(rows.all.per_rank == 4);
  CHECK(rows.off_rank.per_rank == 3);
  CHECK(rows.off_node.per_rank == 2);
  CHECK(rows.all.per_node == 2);
  CHECK(rows.off_rank.per_node == 1);  // to the rail peer; its own node's row stays on this rank
  CHECK(rows.off_node.per_node == 1);
  CHECK(rows.all.to_all == 8);
  CHECK(rows.off_rank.to_all == 6);
  CHECK(rows.off_node.to_all == 2);
  const std::vector<std::int32_t> dropped = {-1, -1, -1};
  CHECK(count_rows({dropped, 3}, placement, 1).all.per_rank == 0);
}

TEST_CASE("uniform routing of 256 experts and top 8 leaves a node as often as published", "[dispatch]") {
  struct Published {
    int nodes;
    double per_copy, per_rank, per_node, to_all;
  };
  const Published published[] = {{2, 4.0, 3.26, 1.00, 1}, {4, 6.0, 5.45, 2.71, 3}, {8, 7.0, 6.72, 4.63, 7}};
  constexpr std::int64_t kTokens = 20000;
  for (const Published& known : published) {
    const ExpertPlacement placement{.expert_count = 256, .rank_count = 8 * known.nodes, .ranks_per_node = 8};
    Random random({static_cast<std::uint64_t>(known.nodes)});
    const RankRouting routing = random_routing(random, kTokens, 8, experts_from(0, 256));
    const RoutedRows rows = count_rows({routing.expert_ids, 8}, placement, 3);
    const auto per_token = [](std::int64_t count) { return static_cast<double>(count) / kTokens; };
    INFO(known.nodes << " nodes");
    CHECK(per_token(rows.off_node.per_copy) == Approx(known.per_copy).epsilon(0.01));
    CHECK(per_token(rows.off_node.per_rank) == Approx(known.per_rank).epsilon(0.01));
    CHECK(per_token(rows.off_node.per_node) == Approx(known.per_node).epsilon(0.01));
    CHECK(per_token(rows.off_node.to_all) == known.to_all);
  }
}

}  // namespace mrb::test
