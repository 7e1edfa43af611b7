// Which rank holds which expert.
#pragma once

namespace mrb {

// Experts in equal, contiguous blocks: expert e lives on rank e / experts_per_rank(). `expert_count` must be
// a multiple of `rank_count` (the configuration is refused before).
struct ExpertPlacement {
  int expert_count = 0;
  int rank_count = 1;

  int experts_per_rank() const { return expert_count / rank_count; }
  int rank_of(int expert_id) const { return expert_id / experts_per_rank(); }
  int first_expert(int rank) const { return rank * experts_per_rank(); }
};

}  // namespace mrb
