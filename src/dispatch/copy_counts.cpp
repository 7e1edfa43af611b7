#include "dispatch/copy_counts.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/error.hpp"

namespace mrb {

std::vector<std::int64_t> count_copies(const Routing& routing, const ExpertPlacement& placement) {
  if (routing.top_k < 1 || routing.top_k > placement.expert_count) {
    throw Error(ErrorKind::config,
                fmt::format("top_k is {}, and there are {} experts", routing.top_k, placement.expert_count),
                fmt::format("use a top_k from 1 to {}", placement.expert_count));
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(placement.expert_count));
  for (const std::int32_t expert_id : routing.expert_ids) {
    if (expert_id == -1) continue;
    if (expert_id < -1 || expert_id >= placement.expert_count) {
      throw Error(ErrorKind::internal,
                  fmt::format("a token was routed to expert {}, of {} experts", expert_id, placement.expert_count),
                  "report this with the command that shows it");
    }
    ++counts[static_cast<std::size_t>(expert_id)];
  }
  return counts;
}

CountsExchange::CountsExchange(BlockExchange& exchange, int ranks, std::size_t counts_per_rank)
    : exchange_(exchange), bytes_(ranks) {
  for (int source = 0; source < ranks; ++source) {
    for (int target = 0; target < ranks; ++target) {
      bytes_.at(source, target) = static_cast<std::int64_t>(counts_per_rank * sizeof(std::int64_t));
    }
  }
  plan_ = exchange_.plan(bytes_);
}

std::vector<std::int64_t> CountsExchange::gather(std::span<const std::int64_t> mine) {
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(bytes_.ranks()));
  exchange_.run(
      plan_, bytes_, "route", [&](int, std::byte* block) { std::memcpy(block, mine.data(), mine.size_bytes()); },
      [&](std::span<const std::byte* const> blocks) {
        for (std::size_t source = 0; source < blocks.size(); ++source) {
          std::memcpy(all.data() + source * mine.size(), blocks[source], mine.size_bytes());
        }
      });
  return all;
}

CopyCounts::CopyCounts(const ExpertPlacement& placement, std::span<const std::int64_t> counts, std::size_t stride)
    : placement_(placement) {
  const auto experts = static_cast<std::size_t>(placement.expert_count);
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(placement.rank_count); ++rank) {
    const auto list = counts.subspan(rank * stride, experts);
    counts_.insert(counts_.end(), list.begin(), list.end());
  }
}

std::int64_t CopyCounts::of(int source, int expert_id) const {
  return counts_[static_cast<std::size_t>(source) * static_cast<std::size_t>(placement_.expert_count) +
                 static_cast<std::size_t>(expert_id)];
}

PairTable CopyCounts::by_pair() const {
  PairTable copies(placement_.rank_count);
  for (int source = 0; source < placement_.rank_count; ++source) {
    for (int expert = 0; expert < placement_.expert_count; ++expert) {
      copies.at(source, placement_.rank_of(expert)) += of(source, expert);
    }
  }
  return copies;
}

void CopyCounts::describe(Route& route, int rank) const {
  for (int local = 0; local < placement_.experts_per_rank(); ++local) {
    std::int64_t copies = 0;
    for (int source = 0; source < placement_.rank_count; ++source) {
      copies += of(source, placement_.first_expert(rank) + local);
    }
    route.rows_of.push_back(copies);
    route.row_count += copies;
  }
}

std::vector<std::int64_t> CopyCounts::first_rows(int rank) const {
  std::vector<std::int64_t> first;
  std::int64_t row = 0;
  for (int local = 0; local < placement_.experts_per_rank(); ++local) {
    for (int source = 0; source < placement_.rank_count; ++source) {
      first.push_back(row);
      row += of(source, placement_.first_expert(rank) + local);
    }
  }
  return first;
}

}  // namespace mrb
