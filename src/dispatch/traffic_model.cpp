#include "dispatch/traffic_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "dispatch/block_exchange.hpp"

namespace mrb {

namespace {

constexpr double kReceiveHalves = 2;  // exchanges take turns with them

}  // namespace

RoutedRows count_rows(const Routing& routing, const ExpertPlacement& placement, int rank) {
  RoutedRows rows;
  const int node = placement.node_of(rank);
  std::vector<int> ranks, nodes;  // of one token
  for (std::int64_t token = 0; token < routing.token_count(); ++token) {
    ranks.clear();
    nodes.clear();
    for (std::int64_t copy = token * routing.top_k; copy < (token + 1) * routing.top_k; ++copy) {
      const std::int32_t expert = routing.expert_ids[static_cast<std::size_t>(copy)];
      if (expert < 0) continue;
      const int target = placement.rank_of(expert);
      rows.all.per_copy += 1;
      rows.off_rank.per_copy += target != rank ? 1 : 0;
      rows.off_node.per_copy += placement.node_of(target) != node ? 1 : 0;
      if (std::find(ranks.begin(), ranks.end(), target) == ranks.end()) ranks.push_back(target);
    }
    for (const int target : ranks) {
      const int target_node = placement.node_of(target);
      rows.off_rank.per_rank += target != rank ? 1 : 0;
      rows.off_node.per_rank += target_node != node ? 1 : 0;
      if (std::find(nodes.begin(), nodes.end(), target_node) == nodes.end()) nodes.push_back(target_node);
    }
    rows.all.per_rank += static_cast<std::int64_t>(ranks.size());
    rows.all.per_node += static_cast<std::int64_t>(nodes.size());
    for (const int target : nodes) {
      rows.off_node.per_node += target != node ? 1 : 0;
      rows.off_rank.per_node += placement.rail_peer(rank, target) != rank ? 1 : 0;
    }
  }
  rows.all.to_all = routing.token_count() * placement.rank_count;
  rows.off_rank.to_all = routing.token_count() * (placement.rank_count - 1);
  rows.off_node.to_all = routing.token_count() * (placement.node_count() - 1);
  return rows;
}

double expected_groups(int experts, int top_k, int groups) {
  double all_miss = 1;  // that none of the experts is in a given group
  for (int i = 0; i < top_k; ++i) {
    all_miss *= std::max(0.0, static_cast<double>(experts - experts / groups - i)) / (experts - i);
  }
  return groups * (1 - all_miss);
}

double expected_groups(const DispatcherOptions& options, int groups) {
  return expected_groups(options.placement.expert_count, std::min(options.top_k, options.placement.expert_count),
                         groups);
}

DispatchBytes wire_bytes(std::span<const std::uint64_t> put_to, const ExpertPlacement& placement, int rank,
                         std::uint64_t logical) {
  DispatchBytes bytes{.logical = logical};
  for (int peer = 0; peer < placement.rank_count; ++peer) {
    const std::uint64_t put = put_to[static_cast<std::size_t>(peer)];
    bytes.wire += put;
    if (placement.node_of(peer) != placement.node_of(rank)) bytes.wire_between_nodes += put;
  }
  return bytes;
}

std::size_t row_bytes(const DispatcherOptions& options, WireType wire) {
  return options.element == ElementType::f64 ? RowCodec<double>(wire, options.hidden).row_bytes()
                                             : RowCodec<float>(wire, options.hidden).row_bytes();
}

std::size_t value_bytes(const DispatcherOptions& options) {
  return element_bytes(options.element);
}

BlockRows even_blocks(double rows, double copies, int peers) {
  const double to_others = static_cast<double>(peers - 1) / peers;
  return {rows, copies, rows * to_others, copies * to_others};
}

std::uint64_t block_buffer_bytes(const DispatcherOptions& options, const BlockRows& blocks) {
  const auto row = static_cast<double>(
      std::max(row_bytes(options, options.dispatch_wire), row_bytes(options, options.combine_wire)));
  const auto value = static_cast<double>(value_bytes(options));
  const double bytes = kReceiveHalves * (blocks.rows_received * row + blocks.copies_received * value) +
                       blocks.rows_sent * row + blocks.copies_sent * value;
  return with_headroom(static_cast<std::size_t>(std::llround(bytes)));
}

std::string block_buffer_formula(const std::string& rows_in_words, const BlockRows& blocks) {
  return fmt::format("9/8 x (2 receive buffers x {:.0f} rows + 1 send buffer x {:.0f} rows), {}", blocks.rows_received,
                     blocks.rows_sent, rows_in_words);
}

}  // namespace mrb
