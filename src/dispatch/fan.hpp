// Where one row serves several copies: fan-out to the place of each copy, and the copies' rows summed on the way back.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "dispatch/row_exchange.hpp"

namespace mrb {

// The copies of the rows of one block, on the experts' rank.
struct Fan {
  std::vector<std::uint32_t> copies_of_row;  // how many, at least one
  std::vector<std::int64_t> place_of_copy;   // among this rank's rows; of all rows, one row after the other
};

// Writes every row to the places of its copies. `row_at` gives the encoded row of that number.
template <class T>
void fan_out_rows(const Fan&, const std::function<const std::byte*(std::size_t row)>& row_at, const RowSums<T>&,
                  T* rows);

// The same of the rows of a block, and every value to the place of its copy.
template <class T>
void fan_out(const Fan&, RowBlock<const std::byte, const T> block, const RowSums<T>&, RowSide to);

// The way back: each row of the block becomes the sum of its copies' rows, in the order of place_of_copy.
template <class T>
void fan_in(const Fan&, RowSide from, RowSums<T>&, RowBlock<std::byte, T> block);

}  // namespace mrb
