// What one MoE layer puts on the wires in one direction, by wire pattern.
#pragma once

namespace mrb {

// The patterns of the published kernels: one row per (token, expert), per (token, rank), per (token, node), or every row
// to all.
enum class WirePattern { per_copy, per_rank, per_node, to_all };

struct MoeTraffic {
  WirePattern pattern = WirePattern::per_copy;
  double tokens = 0;  // of each rank
  double row_bytes = 0;
  int experts = 1;
  int top_k = 1;
  int ranks = 1;           // that share the experts
  int ranks_per_node = 1;  // never above `ranks`
  int groups_max = 0;      // a token's experts are on so many nodes at most; 0: no limit
};

// Of the mean rank, one direction.
struct MoeBytes {
  double nic_bytes = 0;      // to other nodes
  double nvlink_bytes = 0;   // to other ranks of its node, those that it forwards included
  double nic_messages = 0;   // rows that leave for other nodes
  double logical_bytes = 0;  // rows of the pattern, its own node's included, as published bandwidths count
};

MoeBytes moe_bytes(const MoeTraffic&);

}  // namespace mrb
