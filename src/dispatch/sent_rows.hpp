// Which rows a rank sends to which: one for each copy, or one for all copies of a token on one rank.
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
  std::vector<std::uint32_t> expert_of_copy;  // local to the target
};

// One row of a token's sum.
struct Part {
  int rank = 0;
  std::int64_t row = 0;  // among those sent to that rank
};

struct TokenRows {
  std::vector<SentRows> sent;  // by target
  std::vector<Part> parts;     // of all tokens, one token after the other, in the order in which they are added
  std::vector<std::size_t> first_part;  // by token, and one more

  std::span<const Part> parts_of(std::int64_t token) const {
    const std::size_t first = first_part[static_cast<std::size_t>(token)];
    return std::span(parts).subspan(first, first_part[static_cast<std::size_t>(token) + 1] - first);
  }
};

// Rows in the order of experts, then of (token, k); parts in ascending k.
TokenRows rows_by_copy(const Routing&, const ExpertPlacement&);

// Rows in the order of tokens, one for each rank that a token goes to; parts in ascending rank.
TokenRows rows_by_rank(const Routing&, const ExpertPlacement&);

}  // namespace mrb
