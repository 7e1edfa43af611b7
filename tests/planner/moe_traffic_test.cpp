#include "planner/moe_traffic.hpp"

#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

MoeBytes of(WirePattern pattern, int nodes, double tokens = 1) {
  return moe_bytes({.pattern = pattern,
                    .tokens = tokens,
                    .row_bytes = 1,
                    .experts = 256,
                    .top_k = 8,
                    .ranks = nodes * 8,
                    .ranks_per_node = 8});
}

}  // namespace

TEST_CASE("rows that leave a node are those of the published table", "[planner]") {
  struct Row {
    int nodes;
    double copy, rank, node, all;
  };
  for (const Row& row : {Row{2, 4, 3.26, 1, 1}, Row{4, 6, 5.45, 2.71, 3}, Row{8, 7, 6.72, 4.63, 7}}) {
    INFO(row.nodes);
    CHECK(of(WirePattern::per_copy, row.nodes).nic_bytes == Approx(row.copy).margin(.006));
    CHECK(of(WirePattern::per_rank, row.nodes).nic_bytes == Approx(row.rank).margin(.006));
    CHECK(of(WirePattern::per_node, row.nodes).nic_bytes == Approx(row.node).margin(.006));
    CHECK(of(WirePattern::to_all, row.nodes).nic_bytes == Approx(row.all).margin(.006));
  }
}

TEST_CASE("one node puts nothing on the network, whatever the pattern", "[planner]") {
  for (const WirePattern pattern :
       {WirePattern::per_copy, WirePattern::per_rank, WirePattern::per_node, WirePattern::to_all}) {
    CHECK(of(pattern, 1).nic_bytes == 0);
    CHECK(of(pattern, 1).nic_messages == 0);
    CHECK(of(pattern, 1).nvlink_bytes > 0);
  }
}

TEST_CASE("bytes grow with tokens in proportion", "[planner]") {
  CHECK(of(WirePattern::per_node, 4, 300).nic_bytes == Approx(300 * of(WirePattern::per_node, 4).nic_bytes));
}
