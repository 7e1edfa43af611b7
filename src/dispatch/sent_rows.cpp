#include "dispatch/sent_rows.hpp"

#include <algorithm>

namespace mrb {

namespace {

void add_copy(SentRows& sent, std::int64_t copy, int local_expert) {
  ++sent.copies_of_row.back();
  sent.copies.push_back(copy);
  sent.expert_of_copy.push_back(static_cast<std::uint32_t>(local_expert));
}

void add_row(SentRows& sent, std::int64_t token) {
  sent.token_of_row.push_back(token);
  sent.copies_of_row.push_back(0);
}

}  // namespace

TokenRows rows_by_copy(const Routing& routing, const ExpertPlacement& placement) {
  TokenRows rows;
  rows.sent.resize(static_cast<std::size_t>(placement.rank_count));
  std::vector<std::vector<std::int64_t>> copies_of(static_cast<std::size_t>(placement.expert_count));
  for (std::size_t copy = 0; copy < routing.expert_ids.size(); ++copy) {
    if (routing.expert_ids[copy] < 0) continue;
    copies_of[static_cast<std::size_t>(routing.expert_ids[copy])].push_back(static_cast<std::int64_t>(copy));
  }
  std::vector<std::int64_t> row_of_copy(routing.expert_ids.size());
  for (int expert = 0; expert < placement.expert_count; ++expert) {
    const int target = placement.rank_of(expert);
    SentRows& sent = rows.sent[static_cast<std::size_t>(target)];
    for (const std::int64_t copy : copies_of[static_cast<std::size_t>(expert)]) {
      row_of_copy[static_cast<std::size_t>(copy)] = static_cast<std::int64_t>(sent.token_of_row.size());
      add_row(sent, copy / routing.top_k);
      add_copy(sent, copy, expert - placement.first_expert(target));
    }
  }
  for (std::size_t copy = 0; copy < routing.expert_ids.size(); ++copy) {
    if (copy % static_cast<std::size_t>(routing.top_k) == 0) rows.parts.begin_sum();
    const std::int32_t expert = routing.expert_ids[copy];
    if (expert >= 0) rows.parts.add({placement.rank_of(expert), row_of_copy[copy]});
  }
  return rows;
}

namespace {

// Where a copy's row goes, and the first expert of those that are reached from there.
struct Target {
  int rank = 0;
  int first_expert = 0;
};

template <class TargetOf>
TokenRows rows_by_target(const Routing& routing, int ranks, const TargetOf& target_of) {
  TokenRows rows;
  rows.sent.resize(static_cast<std::size_t>(ranks));
  for (std::int64_t token = 0; token < routing.token_count(); ++token) {
    rows.parts.begin_sum();
    for (std::int64_t copy = token * routing.top_k; copy < (token + 1) * routing.top_k; ++copy) {
      const std::int32_t expert = routing.expert_ids[static_cast<std::size_t>(copy)];
      if (expert < 0) continue;
      const Target target = target_of(expert);
      SentRows& sent = rows.sent[static_cast<std::size_t>(target.rank)];
      if (sent.token_of_row.empty() || sent.token_of_row.back() != token) {
        rows.parts.add({target.rank, static_cast<std::int64_t>(sent.token_of_row.size())});
        add_row(sent, token);
      }
      add_copy(sent, copy, expert - target.first_expert);
    }
    std::ranges::sort(rows.parts.of_last(), {}, &Part::rank);
  }
  return rows;
}

}  // namespace

TokenRows rows_by_rank(const Routing& routing, const ExpertPlacement& placement) {
  return rows_by_target(routing, placement.rank_count, [&](int expert) {
    const int rank = placement.rank_of(expert);
    return Target{rank, placement.first_expert(rank)};
  });
}

TokenRows rows_by_node(const Routing& routing, const ExpertPlacement& placement, int rank) {
  return rows_by_target(routing, placement.rank_count, [&](int expert) {
    const int node = placement.node_of(placement.rank_of(expert));
    return Target{placement.rail_peer(rank, node), placement.first_expert(node * placement.node_size())};
  });
}

}  // namespace mrb
