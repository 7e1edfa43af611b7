// What dispatchers that send one block per pair of ranks share: blocks of encoded rows with one value per copy behind
// them, in both directions, and the bytes that makes.
//
//   block   [rows], encoded   then   [copies] values, when values travel
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
#include "dispatch/row_sums.hpp"

namespace mrb {

// Both directions use the same sizes: a block comes back as it went, with the ends changed.
struct RowBlocks {
  PairTable rows;  // from the tokens' rank (source) to the experts' rank (target)
  PairTable copies;
  BlockPlan to_experts;
  BlockPlan to_tokens;
};

template <class Byte, class T>
struct RowBlock {
  Byte* rows = nullptr;
  T* values = nullptr;  // null when no values travel
};

// PairTable with the two ranks of each pair exchanged.
PairTable transposed(const PairTable&);

// T is float or double.
template <class T>
class RowExchange {
 public:
  RowExchange(Channel&, const DispatcherOptions&);

  int rank() const { return me_; }
  std::int64_t hidden() const { return hidden_; }
  BlockExchange& blocks() { return exchange_; }

  // Rows on their way to the experts, and on their way back.
  RowSums<T>& forth() { return forth_; }
  RowSums<T>& back() { return back_; }

  // Collective. Makes room for the blocks, in both directions.
  RowBlocks plan(const PairTable& rows, const PairTable& copies);

  using OutBlock = RowBlock<std::byte, T>;
  using InBlock = RowBlock<const std::byte, const T>;
  using Fill = std::function<void(int target, OutBlock block)>;
  using Read = std::function<void(std::span<const InBlock> blocks)>;  // by source

  // Collective. See BlockExchange; the blocks must stay until finish().
  void start_to_experts(const RowBlocks&, Values, const Fill&);
  void start_to_tokens(const RowBlocks&, Values, const Fill&);
  void finish(const Read&);

  // Add what the copies between other ranks and this one are worth to DispatchBytes::logical. `copies` goes from the
  // tokens' rank to the experts'.
  void count_dispatched(const PairTable& copies, Values);
  void count_combined(const PairTable& copies, Values);

  DispatchBytes bytes() const;

 private:
  std::size_t rows_bytes(std::int64_t rows, std::size_t row_bytes) const;
  PairTable bytes_of(const PairTable& rows, const PairTable& copies, Values, std::size_t row_bytes) const;
  void start(const BlockPlan&, PairTable rows, const PairTable& copies, Values, std::size_t row_bytes,
             std::string_view operation, const Fill&);

  BlockExchange exchange_;
  ExpertPlacement placement_;
  int me_;
  std::int64_t hidden_;
  RowSums<T> forth_;
  RowSums<T> back_;
  std::uint64_t logical_ = 0;

  // Of the exchange under way:
  PairTable rows_;
  Values values_ = Values::none;
  std::size_t row_bytes_ = 0;
};

}  // namespace mrb
