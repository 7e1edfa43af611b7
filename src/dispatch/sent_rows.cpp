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
    if (copy % static_cast<std::size_t>(routing.top_k) == 0) rows.first_part.push_back(rows.parts.size());
    const std::int32_t expert = routing.expert_ids[copy];
    if (expert >= 0) rows.parts.push_back({placement.rank_of(expert), row_of_copy[copy]});
  }
  rows.first_part.push_back(rows.parts.size());
  return rows;
}

TokenRows rows_by_rank(const Routing& routing, const ExpertPlacement& placement) {
  TokenRows rows;
  rows.sent.resize(static_cast<std::size_t>(placement.rank_count));
  for (std::int64_t token = 0; token < routing.token_count(); ++token) {
    rows.first_part.push_back(rows.parts.size());
    for (std::int64_t copy = token * routing.top_k; copy < (token + 1) * routing.top_k; ++copy) {
      const std::int32_t expert = routing.expert_ids[static_cast<std::size_t>(copy)];
      if (expert < 0) continue;
      const int target = placement.rank_of(expert);
      SentRows& sent = rows.sent[static_cast<std::size_t>(target)];
      if (sent.token_of_row.empty() || sent.token_of_row.back() != token) {
        rows.parts.push_back({target, static_cast<std::int64_t>(sent.token_of_row.size())});
        add_row(sent, token);
      }
      add_copy(sent, copy, expert - placement.first_expert(target));
    }
    std::sort(rows.parts.begin() + static_cast<std::ptrdiff_t>(rows.first_part.back()), rows.parts.end(),
              [](const Part& a, const Part& b) { return a.rank < b.rank; });
  }
  rows.first_part.push_back(rows.parts.size());
  return rows;
}

}  // namespace mrb
