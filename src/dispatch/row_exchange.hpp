// What dispatchers that send one block per pair of ranks share: blocks of rows with one value per copy behind
// them, in both directions, and the bytes that makes.
//
//   block   [rows][hidden]   then   [copies] values, when values travel
//
// `rows` and `copies` differ where one row serves several copies.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dispatch/block_exchange.hpp"
#include "dispatch/copy_counts.hpp"
#include "dispatch/dispatcher.hpp"

namespace mrb {

// Both directions use the same sizes: a block comes back as it went, with the ends changed.
struct RowBlocks {
  PairTable rows;  // from the tokens' rank (source) to the experts' rank (target)
  PairTable copies;
  BlockPlan to_experts;
  BlockPlan to_tokens;
};

template <class T>
struct RowBlock {
  T* rows = nullptr;
  T* values = nullptr;  // null when no values travel
};

// PairTable with the two ranks of each pair exchanged.
PairTable transposed(const PairTable&);

enum class Values { none, sent };

// Values travel when either end has memory for them: a rank without tokens, or without rows, may hold none,
// and all ranks must still decide alike.
inline Values values_between(const TokenSide& tokens, const RowSide& rows) {
  return tokens.copy_values != nullptr || rows.row_values != nullptr ? Values::sent : Values::none;
}

// T is float or double.
template <class T>
class RowExchange {
 public:
  RowExchange(Channel& channel, const DispatcherOptions& options)
      : exchange_(channel), me_(channel.rank()), hidden_(options.hidden) {}

  int rank() const { return me_; }
  std::int64_t hidden() const { return hidden_; }
  BlockExchange& blocks() { return exchange_; }
  DispatchBytes bytes() const { return {.logical = logical_, .wire = exchange_.bytes_put()}; }

  // Collective. Makes room for the blocks, in both directions.
  RowBlocks plan(const PairTable& rows, const PairTable& copies);

  using Fill = std::function<void(int target, RowBlock<T> block)>;
  using Read = std::function<void(std::span<const RowBlock<const T>> blocks)>;  // by source

  // Collective. See BlockExchange::run.
  void to_experts(const RowBlocks&, Values, const Fill&, const Read&);
  void to_tokens(const RowBlocks&, Values, const Fill&, const Read&);

 private:
  PairTable bytes_of(const PairTable& rows, const PairTable& copies, Values) const;
  void run(const BlockPlan&, const PairTable& rows, const PairTable& copies, Values, std::string_view operation,
           const Fill&, const Read&);

  BlockExchange exchange_;
  int me_;
  std::int64_t hidden_;
  std::uint64_t logical_ = 0;
};

// Adds rows of `hidden` elements one after the other: ((first + second) + third) ...; none gives 0.
template <class T>
void sum_rows(std::span<const T* const> rows, std::int64_t hidden, T* sum);

}  // namespace mrb
