#include "dispatch/row_exchange.hpp"

#include <algorithm>

#include "dispatch/traffic_model.hpp"

namespace mrb {

PairTable transposed(const PairTable& table) {
  PairTable result(table.ranks());
  for (int source = 0; source < table.ranks(); ++source) {
    for (int target = 0; target < table.ranks(); ++target) result.at(target, source) = table.at(source, target);
  }
  return result;
}

template <class T>
RowExchange<T>::RowExchange(Channel& channel, const DispatcherOptions& options)
    : exchange_(channel),
      placement_(options.placement),
      me_(channel.rank()),
      hidden_(options.hidden),
      forth_(options.dispatch_wire, options.hidden, options.phases),
      back_(options.combine_wire, options.hidden, options.phases) {}

template <class T>
RowBlocks RowExchange<T>::plan(const PairTable& rows, const PairTable& copies) {
  return {.rows = rows,
          .copies = copies,
          .to_experts = exchange_.plan(bytes_of(rows, copies, Values::sent, forth_.row_bytes())),
          .to_tokens = exchange_.plan(transposed(bytes_of(rows, copies, Values::sent, back_.row_bytes())))};
}

// With what fills them up to where a value may lie.
template <class T>
std::size_t RowExchange<T>::rows_bytes(std::int64_t rows, std::size_t row_bytes) const {
  return (static_cast<std::size_t>(rows) * row_bytes + sizeof(T) - 1) / sizeof(T) * sizeof(T);
}

template <class T>
PairTable RowExchange<T>::bytes_of(const PairTable& rows, const PairTable& copies, Values values,
                                   std::size_t row_bytes) const {
  PairTable bytes(rows.ranks());
  for (int source = 0; source < rows.ranks(); ++source) {
    for (int target = 0; target < rows.ranks(); ++target) {
      const auto value_count = static_cast<std::size_t>(values == Values::sent ? copies.at(source, target) : 0);
      bytes.at(source, target) =
          static_cast<std::int64_t>(rows_bytes(rows.at(source, target), row_bytes) + value_count * sizeof(T));
    }
  }
  return bytes;
}

template <class T>
void RowExchange<T>::start_to_experts(const RowBlocks& blocks, Values values, const Fill& fill) {
  start(blocks.to_experts, blocks.rows, blocks.copies, values, forth_.row_bytes(), "dispatch", fill);
}

template <class T>
void RowExchange<T>::start_to_tokens(const RowBlocks& blocks, Values values, const Fill& fill) {
  start(blocks.to_tokens, transposed(blocks.rows), transposed(blocks.copies), values, back_.row_bytes(), "combine",
        fill);
}

template <class T>
void RowExchange<T>::start(const BlockPlan& plan, PairTable rows, const PairTable& copies, Values values,
                           std::size_t row_bytes, std::string_view operation, const Fill& fill) {
  rows_ = std::move(rows);
  values_ = values;
  row_bytes_ = row_bytes;
  exchange_.start(plan, bytes_of(rows_, copies, values, row_bytes), operation, [&](int target, std::byte* block) {
    std::byte* const behind = block + rows_bytes(rows_.at(me_, target), row_bytes);
    fill(target, {block, values == Values::sent ? reinterpret_cast<T*>(behind) : nullptr});
  });
}

template <class T>
void RowExchange<T>::finish(const Read& read) {
  exchange_.finish([&](std::span<const std::byte* const> received) {
    std::vector<InBlock> blocks;
    for (int source = 0; source < rows_.ranks(); ++source) {
      const std::byte* const block = received[static_cast<std::size_t>(source)];
      const std::byte* const behind = block + rows_bytes(rows_.at(source, me_), row_bytes_);
      blocks.push_back({block, values_ == Values::sent ? reinterpret_cast<const T*>(behind) : nullptr});
    }
    read(blocks);
  });
}

template <class T>
void RowExchange<T>::count_dispatched(const PairTable& copies, Values values) {
  const std::size_t copy_bytes = forth_.row_bytes() + (values == Values::sent ? sizeof(T) : 0);
  for (int target = 0; target < copies.ranks(); ++target) {
    if (target != me_) logical_ += static_cast<std::uint64_t>(copies.at(me_, target)) * copy_bytes;
  }
}

template <class T>
void RowExchange<T>::count_combined(const PairTable& copies, Values values) {
  const std::size_t copy_bytes = back_.row_bytes() + (values == Values::sent ? sizeof(T) : 0);
  for (int source = 0; source < copies.ranks(); ++source) {
    if (source != me_) logical_ += static_cast<std::uint64_t>(copies.at(source, me_)) * copy_bytes;
  }
}

template <class T>
DispatchBytes RowExchange<T>::bytes() const {
  return wire_bytes(exchange_.bytes_put_to(), placement_, me_, logical_);
}

template class RowExchange<float>;
template class RowExchange<double>;

}  // namespace mrb
