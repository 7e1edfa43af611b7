// How many copies every rank has for every expert: what all ranks know once they have exchanged their counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dispatch/block_exchange.hpp"
#include "dispatch/dispatcher.hpp"

namespace mrb {

// Counts this rank's copies by expert. Throws Error(config) for more copies per token than there are experts,
// and Error(internal) for an expert that does not exist.
std::vector<std::int64_t> count_copies(const Routing&, const ExpertPlacement&);

// Exchanges equally long lists of counts: one put to every peer.
class CountsExchange {
 public:
  // Collective. The exchange must outlive this object.
  CountsExchange(BlockExchange&, int ranks, std::size_t counts_per_rank);

  // Collective. Every rank's list, one after the other.
  std::vector<std::int64_t> gather(std::span<const std::int64_t> mine);

 private:
  BlockExchange& exchange_;
  PairTable bytes_;
  BlockPlan plan_;
};

class CopyCounts {
 public:
  // `counts` starts with rank 0's copies by expert; each rank's list is `stride` after the one before.
  CopyCounts(const ExpertPlacement&, std::span<const std::int64_t> counts, std::size_t stride);

  std::int64_t of(int source, int expert_id) const;

  // Copies that go from `source` to the experts of `target`.
  PairTable by_pair() const;

  // Fills in rows_of and row_count for `rank`.
  void describe(Route&, int rank) const;

  // [experts_per_rank][ranks]: where the rows of (local expert, source) begin among the rows of `rank`.
  std::vector<std::int64_t> first_rows(int rank) const;

 private:
  ExpertPlacement placement_;
  std::vector<std::int64_t> counts_;  // [ranks][experts]
};

}  // namespace mrb
