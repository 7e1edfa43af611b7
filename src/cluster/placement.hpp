// Which rank holds which expert, and which node holds which rank.
#pragma once

namespace mrb {

// Experts in equal, contiguous blocks: expert e lives on rank e / experts_per_rank(). `expert_count` must be
// a multiple of `rank_count` (the configuration is refused before).
struct ExpertPlacement {
  int expert_count = 0;
  int rank_count = 1;
  int ranks_per_node = 0;  // ranks are numbered node by node; 0: all are on one. Must divide rank_count

  int experts_per_rank() const { return expert_count / rank_count; }
  int rank_of(int expert_id) const { return expert_id / experts_per_rank(); }
  int first_expert(int rank) const { return rank * experts_per_rank(); }

  int node_size() const { return ranks_per_node > 0 ? ranks_per_node : rank_count; }
  int node_count() const { return rank_count / node_size(); }
  int node_of(int rank) const { return rank / node_size(); }

  // The rank of `node` that has the same place there as `rank` has on its own node: on cards with one network
  // interface each, the two share a rail.
  int rail_peer(int rank, int node) const { return node * node_size() + rank % node_size(); }
};

}  // namespace mrb
