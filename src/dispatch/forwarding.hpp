// The second hop of rows that cross the network once per node: what came to this rank goes on to the ranks of its node,
// and their sums come back through it as one.
//
// Two nodes of two ranks, one expert each. A token of rank 0 for experts 1, 2 and 3:
//
//   hop 1    0 -> 0 (its own node)    one row, for expert 1
//            0 -> 2 (rail peer)       one row, for experts 2 and 3
//   hop 2    0 -> 1                   one row
//            2 -> 2, 2 -> 3           one row each
//
// The rows of a block of hop 2 are in the order of (source, row of its block of hop 1).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "dispatch/fan.hpp"
#include "dispatch/sent_rows.hpp"

namespace mrb {

// What each rank sends to each.
struct Hop {
  PairTable rows;
  PairTable copies;
};

struct TwoHops {
  Hop to_node;  // from the tokens' rank to its rail peer on the experts' node
  Hop in_node;  // from there to the experts' rank
};

// What a rank tells all others about its routing: copies by expert, rows by node, rows by rank. `copies` are those by
// expert, and `mine` is what rows_by_node() made.
std::vector<std::int64_t> two_hop_counts(std::vector<std::int64_t> copies, const Routing&, const ExpertPlacement&,
                                         int rank, const TokenRows& mine);

// Both hops from the two_hop_counts() of all ranks, one rank's after the other.
TwoHops plan_two_hops(std::span<const std::int64_t> counts_of_all, const ExpertPlacement&);

// One row of hop 2, and where it came from.
struct ForwardedRow {
  int source = 0;
  std::int64_t row = 0;            // in the block of its source
  std::int64_t first_copy = 0;     // of all that the row is for, in the block of its source
  std::int64_t first_forward = 0;  // of those that it is for here, in this block
  std::uint32_t copies = 0;        // for which it is here
};

// What goes to one rank of this node.
struct ForwardBlock {
  std::vector<ForwardedRow> rows;
  std::vector<std::uint32_t> copy_of_row;     // which of the row's copies at its source
  std::vector<std::uint32_t> expert_of_copy;  // local to the target

  // What the target must know of the block: [source of each row][copies of each row][expert of each copy].
  void write_entries(std::uint32_t* entries) const;
};

constexpr std::int64_t entries_of(std::int64_t rows, std::int64_t copies) {
  return 2 * rows + copies;
}

// Where the copies of a block of hop 2 belong, from its entries. `next_row` has the next free row of (local expert,
// source), which gives the order that Route promises, since a source's rows are in the order of tokens.
Fan fan_of_entries(const std::uint32_t* entries, std::int64_t rows, std::vector<std::int64_t>& next_row, int ranks);

class Forwards {
 public:
  Forwards() = default;
  Forwards(const ExpertPlacement&, int rank);

  // The next row that came from `source`, with the experts of its copies, counted from the first one of this node. Sources
  // are in ascending order.
  void add_row(int source, std::span<const std::uint32_t> experts);

  const ForwardBlock& to(int target) const { return to_[static_cast<std::size_t>(target)]; }

  // The rows of hop 2 that became of each row of a source, in ascending rank.
  const RowParts& parts(int source) const { return parts_[static_cast<std::size_t>(source)]; }

 private:
  ExpertPlacement placement_;
  int first_rank_ = 0;                     // of this node
  std::vector<ForwardBlock> to_;           // by rank; empty for those of other nodes
  std::vector<RowParts> parts_;            // by source
  std::vector<std::int64_t> next_copies_;  // by source: copies of the rows so far
};

// Fills the block for one rank. `arrived` gives a ForwardedRow's row and values as they came.
template <class T, class Arrived>
void forward(const ForwardBlock& forwarded, const Arrived& arrived, std::size_t row_bytes,
             RowBlock<std::byte, T> block) {
  for (const ForwardedRow& row : forwarded.rows) {
    const RowBlock<const std::byte, const T> from = arrived(row);
    block.rows = std::copy_n(from.rows, row_bytes, block.rows);
    if (block.values == nullptr) continue;
    for (std::uint32_t i = 0; i < row.copies; ++i) {
      *block.values++ = from.values[forwarded.copy_of_row[static_cast<std::size_t>(row.first_forward + i)]];
    }
  }
}

// The way back: the sums of this node's ranks become one sum for each row that came from `source`.
template <class T>
void hand_back(const Forwards&, int source, std::span<const RowBlock<const std::byte, const T>> sums_of_ranks,
               RowSums<T>&, RowBlock<std::byte, T> block);

}  // namespace mrb
