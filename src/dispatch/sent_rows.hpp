// Which rows a rank sends to which: one for each copy, one for all copies of a token on one rank, or one for all on one
// node.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dispatch/dispatcher.hpp"

namespace mrb {

// What goes to one rank: rows, and the copies of each.
struct SentRows {
  std::vector<std::int64_t> token_of_row;
  std::vector<std::uint32_t> copies_of_row;   // how many, at least one
  std::vector<std::int64_t> copies;           // t * top_k + k, of all rows, one row after the other
  std::vector<std::uint32_t> expert_of_copy;  // from the first one of the target, or of its node
};

// One row of a sum.
struct Part {
  int rank = 0;
  std::int64_t row = 0;  // among those sent to that rank
};

// Which rows each of many sums is made of, in the order in which they are added.
class RowParts {
 public:
  void begin_sum() { first_.push_back(parts_.size()); }
  void add(Part part) { parts_.push_back(part); }

  std::span<Part> of_last() { return std::span(parts_).subspan(first_.back()); }
  std::span<const Part> of(std::int64_t sum) const {
    const auto i = static_cast<std::size_t>(sum);
    const std::size_t end = i + 1 < first_.size() ? first_[i + 1] : parts_.size();
    return std::span(parts_).subspan(first_[i], end - first_[i]);
  }
  std::int64_t sum_count() const { return static_cast<std::int64_t>(first_.size()); }

 private:
  std::vector<Part> parts_;  // of all sums, one sum after the other
  std::vector<std::size_t> first_;
};

struct TokenRows {
  std::vector<SentRows> sent;  // by target
  RowParts parts;              // by token
};

// Rows in the order of experts, then of (token, k); parts in ascending k.
TokenRows rows_by_copy(const Routing&, const ExpertPlacement&);

// Rows in the order of tokens, one for each rank that a token goes to; parts in ascending rank.
TokenRows rows_by_rank(const Routing&, const ExpertPlacement&);

// Rows in the order of tokens, one for each node that a token goes to, sent to the rank there on the rail of `rank`; parts
// in ascending node.
TokenRows rows_by_node(const Routing&, const ExpertPlacement&, int rank);

}  // namespace mrb
