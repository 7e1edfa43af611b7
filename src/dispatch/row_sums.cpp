#include "dispatch/row_sums.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace mrb {

namespace {

constexpr std::int64_t kChunk = 16;  // sums at once

constexpr std::size_t kRowsAtOnce = 4;

// sum = ((rows[0] + rows[1]) + rows[2]) ..., where `sum` may be the first of them: one pass through memory.
template <class T, std::size_t... I>
void add_at_once(const T* const* rows, std::int64_t hidden, T* sum, std::index_sequence<I...>) {
  const T* const row[] = {rows[I]...};
#pragma GCC ivdep
  for (std::int64_t h = 0; h < hidden; ++h) sum[h] = (... + row[I][h]);
}

template <class T>
void add_at_once(std::span<const T* const> rows, std::int64_t hidden, T* sum) {
  switch (rows.size()) {
    case 1:
      return add_at_once(rows.data(), hidden, sum, std::make_index_sequence<1>{});
    case 2:
      return add_at_once(rows.data(), hidden, sum, std::make_index_sequence<2>{});
    case 3:
      return add_at_once(rows.data(), hidden, sum, std::make_index_sequence<3>{});
    default:
      return add_at_once(rows.data(), hidden, sum, std::make_index_sequence<kRowsAtOnce>{});
  }
}

}  // namespace

template <class T>
void sum_rows(std::span<const T* const> rows, std::int64_t hidden, T* sum) {
  if (rows.empty()) {
    std::fill_n(sum, hidden, T{0});
    return;
  }
  add_at_once(rows.first(std::min(rows.size(), kRowsAtOnce)), hidden, sum);
  for (std::size_t done = kRowsAtOnce; done < rows.size();) {
    std::array<const T*, kRowsAtOnce> next = {sum};
    const std::size_t count = std::min(kRowsAtOnce - 1, rows.size() - done);
    std::ranges::copy(rows.subspan(done, count), next.begin() + 1);
    add_at_once(std::span<const T* const>(next).first(count + 1), hidden, sum);
    done += count;
  }
}

template <class T>
const std::byte* RowSums<T>::encoded(const T* rows, std::int64_t count) {
  if (codec_.is_native()) return reinterpret_cast<const std::byte*>(rows);
  encoded_.resize(std::max(encoded_.size(), static_cast<std::size_t>(count) * row_bytes()));
  encode(rows, count, encoded_.data());
  return encoded_.data();
}

template <class T>
void RowSums<T>::encode(const T* rows, std::int64_t count, std::byte* to) const {
  if (codec_.is_native()) {
    std::copy_n(reinterpret_cast<const std::byte*>(rows), static_cast<std::size_t>(count) * row_bytes(), to);
    return;
  }
  const CastPhase cast = cast_phase();
  for (std::int64_t i = 0; i < count; ++i)
    codec_.encode(rows + i * hidden_, to + static_cast<std::size_t>(i) * row_bytes());
}

template <class T>
void RowSums<T>::decode(const std::byte* from, std::int64_t count, T* rows) const {
  if (codec_.is_native()) {
    std::copy_n(from, static_cast<std::size_t>(count) * row_bytes(), reinterpret_cast<std::byte*>(rows));
    return;
  }
  const CastPhase cast = cast_phase();
  for (std::int64_t i = 0; i < count; ++i)
    codec_.decode(from + static_cast<std::size_t>(i) * row_bytes(), rows + i * hidden_);
}

// wire_parts_ -> parts_
template <class T>
void RowSums<T>::decode_parts() {
  parts_.clear();
  if (codec_.is_native()) {
    for (const std::byte* part : wire_parts_) parts_.push_back(reinterpret_cast<const T*>(part));
    return;
  }
  const CastPhase cast = cast_phase();
  const auto hidden = static_cast<std::size_t>(hidden_);
  decoded_.resize(std::max(decoded_.size(), wire_parts_.size() * hidden));
  for (std::size_t i = 0; i < wire_parts_.size(); ++i) {
    codec_.decode(wire_parts_[i], &decoded_[i * hidden]);
    parts_.push_back(&decoded_[i * hidden]);
  }
}

template <class T>
void RowSums<T>::sum_parts(std::int64_t count, T* sums) {
  first_part_.push_back(parts_.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto first = first_part_[static_cast<std::size_t>(i)], end = first_part_[static_cast<std::size_t>(i) + 1];
    sum_rows<T>(std::span<const T* const>(parts_).subspan(first, end - first), hidden_, sums + i * hidden_);
  }
}

template <class T>
void RowSums<T>::from_wire(std::int64_t count, const WireParts& parts_of, T* sums) {
  for (std::int64_t done = 0; done < count; done += kChunk) {
    const std::int64_t chunk = std::min(kChunk, count - done);
    wire_parts_.clear();
    first_part_.clear();
    for (std::int64_t i = 0; i < chunk; ++i) {
      first_part_.push_back(wire_parts_.size());
      parts_of(done + i, wire_parts_);
    }
    decode_parts();
    sum_parts(chunk, sums + done * hidden_);
  }
}

template <class T>
void RowSums<T>::to_wire(std::int64_t count, const Parts& parts_of, std::byte* sums) {
  sums_.resize(static_cast<std::size_t>(kChunk * hidden_));
  for (std::int64_t done = 0; done < count; done += kChunk) {
    const std::int64_t chunk = std::min(kChunk, count - done);
    std::byte* const to = sums + static_cast<std::size_t>(done) * row_bytes();
    parts_.clear();
    first_part_.clear();
    for (std::int64_t i = 0; i < chunk; ++i) {
      first_part_.push_back(parts_.size());
      parts_of(done + i, parts_);
    }
    if (codec_.is_native()) {
      sum_parts(chunk, reinterpret_cast<T*>(to));
    } else {
      sum_parts(chunk, sums_.data());
      encode(sums_.data(), chunk, to);
    }
  }
}

template <class T>
void RowSums<T>::through_wire(std::int64_t count, const WireParts& parts_of, std::byte* sums) {
  sums_.resize(static_cast<std::size_t>(kChunk * hidden_));
  for (std::int64_t done = 0; done < count; done += kChunk) {
    const std::int64_t chunk = std::min(kChunk, count - done);
    std::byte* const to = sums + static_cast<std::size_t>(done) * row_bytes();
    const auto later = [&](std::int64_t i, std::vector<const std::byte*>& parts) { parts_of(done + i, parts); };
    if (codec_.is_native()) {
      from_wire(chunk, later, reinterpret_cast<T*>(to));
    } else {
      from_wire(chunk, later, sums_.data());
      encode(sums_.data(), chunk, to);
    }
  }
}

template void sum_rows(std::span<const float* const>, std::int64_t, float*);
template void sum_rows(std::span<const double* const>, std::int64_t, double*);
template class RowSums<float>;
template class RowSums<double>;

}  // namespace mrb
