#include "dispatch/fan.hpp"

#include <algorithm>

namespace mrb {

namespace {

constexpr std::size_t kChunk = 8;  // rows converted at once, before they are copied on: they are still in the cache

}  // namespace

template <class T>
void fan_out_rows(const Fan& fan, const std::function<const std::byte*(std::size_t row)>& row_at,
                  const RowSums<T>& wire, T* rows) {
  const std::int64_t hidden = wire.hidden();
  const std::int64_t* place = fan.place_of_copy.data();
  for (std::size_t first = 0; first < fan.copies_of_row.size(); first += kChunk) {
    const std::size_t end = std::min(first + kChunk, fan.copies_of_row.size());
    {
      const CastPhase cast = wire.cast_phase();
      const std::int64_t* first_place = place;
      for (std::size_t row = first; row < end; ++row) {
        wire.codec().decode(row_at(row), rows + *first_place * hidden);
        first_place += fan.copies_of_row[row];
      }
    }
    for (std::size_t row = first; row < end; ++row) {
      const T* decoded = rows + *place * hidden;
      for (std::uint32_t copy = 1; copy < fan.copies_of_row[row]; ++copy) {
        std::copy_n(decoded, hidden, rows + place[copy] * hidden);
      }
      place += fan.copies_of_row[row];
    }
  }
}

template <class T>
void fan_out(const Fan& fan, RowBlock<const std::byte, const T> block, const RowSums<T>& wire, RowSide to) {
  fan_out_rows<T>(
      fan, [&](std::size_t row) { return block.rows + row * wire.row_bytes(); }, wire, static_cast<T*>(to.rows));
  if (block.values == nullptr) return;
  for (const std::int64_t row : fan.place_of_copy) static_cast<T*>(to.row_values)[row] = *block.values++;
}

template <class T>
void fan_in(const Fan& fan, RowSide from, RowSums<T>& wire, RowBlock<std::byte, T> block) {
  const std::int64_t* place = fan.place_of_copy.data();
  wire.to_wire(
      static_cast<std::int64_t>(fan.copies_of_row.size()),
      [&](std::int64_t row, std::vector<const T*>& parts) {
        for (std::uint32_t copy = 0; copy < fan.copies_of_row[static_cast<std::size_t>(row)]; ++copy) {
          parts.push_back(static_cast<const T*>(from.rows) + *place++ * wire.hidden());
        }
      },
      block.rows);
  if (block.values == nullptr) return;
  for (const std::int64_t row : fan.place_of_copy) *block.values++ = static_cast<const T*>(from.row_values)[row];
}

template void fan_out_rows(const Fan&, const std::function<const std::byte*(std::size_t)>&, const RowSums<float>&,
                           float*);
template void fan_out_rows(const Fan&, const std::function<const std::byte*(std::size_t)>&, const RowSums<double>&,
                           double*);
template void fan_out(const Fan&, RowBlock<const std::byte, const float>, const RowSums<float>&, RowSide);
template void fan_out(const Fan&, RowBlock<const std::byte, const double>, const RowSums<double>&, RowSide);
template void fan_in(const Fan&, RowSide, RowSums<float>&, RowBlock<std::byte, float>);
template void fan_in(const Fan&, RowSide, RowSums<double>&, RowBlock<std::byte, double>);

}  // namespace mrb
