// What every dispatcher must compute: in one process, for all ranks at once, in the plainest words.
#pragma once

#include <cstdint>
#include <vector>

#include "dispatch/dispatcher.hpp"

namespace mrb {

// Routing of one rank, owned.
struct RankRouting {
  std::vector<std::int32_t> expert_ids;  // [token_count][top_k]
  int top_k = 1;
};

// Where a row comes from.
struct RowSource {
  int rank = 0;
  std::int64_t token = 0;
  int k = 0;
};

// The rows of `rank`'s experts, in the order of Route::rows_of.
std::vector<RowSource> reference_rows(const std::vector<RankRouting>& routing, const ExpertPlacement&, int rank);

// tokens[rank][t * hidden + h] -> rows[rank][n * hidden + h], as they are after the journey in `wire`.
template <class T>
std::vector<std::vector<T>> reference_dispatch(const std::vector<RankRouting>&, const ExpertPlacement&,
                                               std::int64_t hidden, const std::vector<std::vector<T>>& tokens,
                                               WireType wire = WireType::native);

// rows -> tokens, added up in the order of `tree`, each sum that travels rounded to `wire`.
template <class T>
std::vector<std::vector<T>> reference_combine(const std::vector<RankRouting>&, const ExpertPlacement&,
                                              std::int64_t hidden, const std::vector<std::vector<T>>& rows,
                                              ReductionTree tree, WireType wire = WireType::native);

// The copies of one token, by k; a dropped one has no row.
template <class T>
struct TokenCopies {
  std::vector<const T*> rows;
  std::vector<int> ranks;  // of the experts
};

// One token of reference_combine(): [hidden].
template <class T>
std::vector<T> reference_sum(const TokenCopies<T>&, const ExpertPlacement&, const RowCodec<T>&, std::int64_t hidden,
                             ReductionTree tree);

// A row as it is after its journey to the wire type and back.
template <class T>
std::vector<T> after_the_journey(const RowCodec<T>&, const T* row, std::int64_t hidden);

}  // namespace mrb
