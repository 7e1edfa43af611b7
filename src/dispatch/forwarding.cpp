#include "dispatch/forwarding.hpp"

#include <utility>

#include "dispatch/copy_counts.hpp"

namespace mrb {

namespace {

// Tokens with a copy on each rank.
std::vector<std::int64_t> count_rows_by_rank(const Routing& routing, const ExpertPlacement& placement) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(placement.rank_count));
  std::vector<std::int64_t> last_token(rows.size(), -1);
  for (std::size_t copy = 0; copy < routing.expert_ids.size(); ++copy) {
    if (routing.expert_ids[copy] < 0) continue;
    const auto target = static_cast<std::size_t>(placement.rank_of(routing.expert_ids[copy]));
    const std::int64_t token = static_cast<std::int64_t>(copy) / routing.top_k;
    if (std::exchange(last_token[target], token) != token) ++rows[target];
  }
  return rows;
}

}  // namespace

std::vector<std::int64_t> two_hop_counts(std::vector<std::int64_t> copies, const Routing& routing,
                                         const ExpertPlacement& placement, int rank, const TokenRows& mine) {
  auto counts = std::move(copies);
  for (int node = 0; node < placement.node_count(); ++node) {
    const SentRows& sent = mine.sent[static_cast<std::size_t>(placement.rail_peer(rank, node))];
    counts.push_back(static_cast<std::int64_t>(sent.token_of_row.size()));
  }
  const auto rows_by_rank = count_rows_by_rank(routing, placement);
  counts.insert(counts.end(), rows_by_rank.begin(), rows_by_rank.end());
  return counts;
}

TwoHops plan_two_hops(std::span<const std::int64_t> counts_of_all, const ExpertPlacement& placement) {
  const auto ranks = static_cast<std::size_t>(placement.rank_count);
  const std::size_t stride = counts_of_all.size() / ranks;
  const PairTable copies = CopyCounts(placement, counts_of_all, stride).by_pair(), none(placement.rank_count);
  TwoHops hops{{none, none}, {none, none}};
  for (int source = 0; source < placement.rank_count; ++source) {
    const auto list = counts_of_all.subspan(static_cast<std::size_t>(source) * stride, stride);
    const auto rows_by_node = list.subspan(static_cast<std::size_t>(placement.expert_count));
    const auto rows_by_rank = rows_by_node.subspan(static_cast<std::size_t>(placement.node_count()));
    for (int target = 0; target < placement.rank_count; ++target) {
      const int node = placement.node_of(target);
      const int forwarder = placement.rail_peer(source, node);
      hops.to_node.rows.at(source, forwarder) = rows_by_node[static_cast<std::size_t>(node)];
      hops.to_node.copies.at(source, forwarder) += copies.at(source, target);
      hops.in_node.rows.at(forwarder, target) += rows_by_rank[static_cast<std::size_t>(target)];
      hops.in_node.copies.at(forwarder, target) += copies.at(source, target);
    }
  }
  return hops;
}

void ForwardBlock::write_entries(std::uint32_t* entries) const {
  for (const ForwardedRow& row : rows) *entries++ = static_cast<std::uint32_t>(row.source);
  for (const ForwardedRow& row : rows) *entries++ = row.copies;
  std::ranges::copy(expert_of_copy, entries);
}

Fan fan_of_entries(const std::uint32_t* entries, std::int64_t rows, std::vector<std::int64_t>& next_row, int ranks) {
  const std::uint32_t* const source_of_row = entries;
  const std::uint32_t* const copies_of_row = source_of_row + rows;
  const std::uint32_t* expert = copies_of_row + rows;
  Fan fan;
  fan.copies_of_row.assign(copies_of_row, copies_of_row + rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::uint32_t copy = 0; copy < copies_of_row[row]; ++copy) {
      fan.place_of_copy.push_back(next_row[*expert++ * static_cast<std::size_t>(ranks) + source_of_row[row]]++);
    }
  }
  return fan;
}

Forwards::Forwards(const ExpertPlacement& placement, int rank)
    : placement_(placement),
      first_rank_(placement.node_of(rank) * placement.node_size()),
      to_(static_cast<std::size_t>(placement.rank_count)),
      parts_(to_.size()),
      next_copies_(to_.size()) {}

void Forwards::add_row(int source, std::span<const std::uint32_t> experts) {
  RowParts& parts = parts_[static_cast<std::size_t>(source)];
  std::int64_t& first_copy = next_copies_[static_cast<std::size_t>(source)];
  const std::int64_t row = parts.sum_count();
  parts.begin_sum();
  for (std::uint32_t copy = 0; copy < experts.size(); ++copy) {
    const auto expert = static_cast<int>(experts[copy]);
    const int target = first_rank_ + expert / placement_.experts_per_rank();
    ForwardBlock& block = to_[static_cast<std::size_t>(target)];
    const auto so_far = parts.of_last();
    if (std::ranges::find(so_far, target, &Part::rank) == so_far.end()) {
      parts.add({target, static_cast<std::int64_t>(block.rows.size())});
      block.rows.push_back({.source = source,
                            .row = row,
                            .first_copy = first_copy,
                            .first_forward = static_cast<std::int64_t>(block.copy_of_row.size())});
    }
    ++block.rows.back().copies;
    block.copy_of_row.push_back(copy);
    block.expert_of_copy.push_back(static_cast<std::uint32_t>(expert % placement_.experts_per_rank()));
  }
  std::ranges::sort(parts.of_last(), {}, &Part::rank);
  first_copy += static_cast<std::int64_t>(experts.size());
}

template <class T>
void hand_back(const Forwards& forwards, int source, std::span<const RowBlock<const std::byte, const T>> sums_of_ranks,
               RowSums<T>& wire, RowBlock<std::byte, T> block) {
  const RowParts& parts = forwards.parts(source);
  wire.through_wire(
      parts.sum_count(),
      [&](std::int64_t row, std::vector<const std::byte*>& rows) {
        for (const Part& part : parts.of(row)) {
          rows.push_back(sums_of_ranks[static_cast<std::size_t>(part.rank)].rows +
                         static_cast<std::size_t>(part.row) * wire.row_bytes());
        }
      },
      block.rows);
  if (block.values == nullptr) return;
  for (std::int64_t sum = 0; sum < parts.sum_count(); ++sum) {
    for (const Part& part : parts.of(sum)) {
      const ForwardBlock& to = forwards.to(part.rank);
      const ForwardedRow& row = to.rows[static_cast<std::size_t>(part.row)];
      const T* const values = sums_of_ranks[static_cast<std::size_t>(part.rank)].values;
      for (std::int64_t i = row.first_forward; i < row.first_forward + row.copies; ++i) {
        block.values[row.first_copy + to.copy_of_row[static_cast<std::size_t>(i)]] = values[i];
      }
    }
  }
}

template void hand_back(const Forwards&, int, std::span<const RowBlock<const std::byte, const float>>, RowSums<float>&,
                        RowBlock<std::byte, float>);
template void hand_back(const Forwards&, int, std::span<const RowBlock<const std::byte, const double>>,
                        RowSums<double>&, RowBlock<std::byte, double>);

}  // namespace mrb
