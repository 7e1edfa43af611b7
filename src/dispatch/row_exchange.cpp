#include "dispatch/row_exchange.hpp"

#include <algorithm>

namespace mrb {

PairTable transposed(const PairTable& table) {
  PairTable result(table.ranks());
  for (int source = 0; source < table.ranks(); ++source) {
    for (int target = 0; target < table.ranks(); ++target) result.at(target, source) = table.at(source, target);
  }
  return result;
}

template <class T>
RowBlocks RowExchange<T>::plan(const PairTable& rows, const PairTable& copies) {
  const PairTable bytes_max = bytes_of(rows, copies, Values::sent);
  return {.rows = rows,
          .copies = copies,
          .to_experts = exchange_.plan(bytes_max),
          .to_tokens = exchange_.plan(transposed(bytes_max))};
}

template <class T>
PairTable RowExchange<T>::bytes_of(const PairTable& rows, const PairTable& copies, Values values) const {
  PairTable bytes(rows.ranks());
  for (int source = 0; source < rows.ranks(); ++source) {
    for (int target = 0; target < rows.ranks(); ++target) {
      const std::int64_t value_count = values == Values::sent ? copies.at(source, target) : 0;
      bytes.at(source, target) =
          (rows.at(source, target) * hidden_ + value_count) * static_cast<std::int64_t>(sizeof(T));
    }
  }
  return bytes;
}

template <class T>
void RowExchange<T>::to_experts(const RowBlocks& blocks, Values values, const Fill& fill, const Read& read) {
  run(blocks.to_experts, blocks.rows, blocks.copies, values, "dispatch", fill, read);
}

template <class T>
void RowExchange<T>::to_tokens(const RowBlocks& blocks, Values values, const Fill& fill, const Read& read) {
  run(blocks.to_tokens, transposed(blocks.rows), transposed(blocks.copies), values, "combine", fill, read);
}

template <class T>
void RowExchange<T>::run(const BlockPlan& plan, const PairTable& rows, const PairTable& copies, Values values,
                         std::string_view operation, const Fill& fill, const Read& read) {
  const auto typed = [&](auto* memory, int source, int target) {
    return RowBlock<std::remove_pointer_t<decltype(memory)>>{
        memory, values == Values::sent ? memory + rows.at(source, target) * hidden_ : nullptr};
  };
  exchange_.run(
      plan, bytes_of(rows, copies, values), operation,
      [&](int target, std::byte* block) { fill(target, typed(reinterpret_cast<T*>(block), me_, target)); },
      [&](std::span<const std::byte* const> received) {
        std::vector<RowBlock<const T>> blocks;
        for (int source = 0; source < rows.ranks(); ++source) {
          blocks.push_back(typed(reinterpret_cast<const T*>(received[static_cast<std::size_t>(source)]), source, me_));
        }
        read(blocks);
      });
  const std::int64_t row_elements = hidden_ + (values == Values::sent ? 1 : 0);
  for (int target = 0; target < rows.ranks(); ++target) {
    if (target != me_) logical_ += static_cast<std::uint64_t>(copies.at(me_, target) * row_elements) * sizeof(T);
  }
}

template <class T>
void sum_rows(std::span<const T* const> rows, std::int64_t hidden, T* sum) {
  if (rows.empty()) {
    std::fill_n(sum, hidden, T{0});
    return;
  }
  std::copy_n(rows[0], hidden, sum);
  for (const T* row : rows.subspan(1)) {
    for (std::int64_t h = 0; h < hidden; ++h) sum[h] += row[h];
  }
}

template class RowExchange<float>;
template class RowExchange<double>;
template void sum_rows(std::span<const float* const>, std::int64_t, float*);
template void sum_rows(std::span<const double* const>, std::int64_t, double*);

}  // namespace mrb
