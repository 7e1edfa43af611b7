#include "planner/moe_traffic.hpp"

#include <algorithm>

#include "dispatch/traffic_model.hpp"

namespace mrb {

MoeBytes moe_bytes(const MoeTraffic& t) {
  const double ranks = t.ranks, local = t.ranks_per_node, nodes = ranks / local;
  const double on_ranks = expected_groups(t.experts, t.top_k, t.ranks);
  double on_nodes = expected_groups(t.experts, t.top_k, static_cast<int>(nodes));
  if (t.groups_max > 0) on_nodes = std::min(on_nodes, static_cast<double>(t.groups_max));
  const double off_node = (nodes - 1) / nodes;
  const double off_rank_on_node = (local - 1) / ranks;
  double nic_rows = 0, nvlink_rows = 0, rows = 0;
  switch (t.pattern) {
    case WirePattern::per_copy:
      rows = t.top_k;
      nic_rows = rows * off_node;
      nvlink_rows = rows * off_rank_on_node;
      break;
    case WirePattern::per_rank:
      rows = on_ranks;
      nic_rows = rows * off_node;
      nvlink_rows = rows * off_rank_on_node;
      break;
    case WirePattern::per_node:
      rows = on_nodes;
      nic_rows = rows * off_node;
      nvlink_rows = on_ranks * (local - 1) / local;  // fanned out where they arrive
      break;
    case WirePattern::to_all:
      rows = ranks;
      nic_rows = nodes - 1;  // of a ring over nodes
      nvlink_rows = ranks - nodes;
      break;
  }
  const double tokens_bytes = t.tokens * t.row_bytes;
  return {.nic_bytes = tokens_bytes * nic_rows,
          .nvlink_bytes = tokens_bytes * nvlink_rows,
          .nic_messages = t.tokens * nic_rows,
          .logical_bytes = tokens_bytes * rows};
}

}  // namespace mrb
