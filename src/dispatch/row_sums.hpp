// Sums of rows, on both sides of the wire. Rows are converted in chunks that stay in the cache, so that the conversion is
// a phase of its own ("cast") and no row makes an extra trip through memory for it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/phase_clock.hpp"
#include "dispatch/wire_type.hpp"

namespace mrb {

// The phase "cast", where there is a clock for it.
class CastPhase {
 public:
  explicit CastPhase(PhaseClock* phases) {
    if (phases != nullptr) scope_.emplace(*phases, "cast");
  }

 private:
  std::optional<PhaseClock::Scope> scope_;
};

// Adds rows of `hidden` elements one after the other: ((first + second) + third) ...; none gives 0.
template <class T>
void sum_rows(std::span<const T* const> rows, std::int64_t hidden, T* sum);

template <class T>
class RowSums {
 public:
  // `phases` may be null.
  RowSums(WireType wire, std::int64_t hidden, PhaseClock* phases)
      : codec_(wire, hidden), hidden_(hidden), phases_(phases) {}

  const RowCodec<T>& codec() const { return codec_; }
  std::size_t row_bytes() const { return codec_.row_bytes(); }
  std::int64_t hidden() const { return hidden_; }

  // While it lives, time goes to the phase "cast" if there is anything to cast.
  CastPhase cast_phase() const { return CastPhase(codec_.is_native() ? nullptr : phases_); }

  // Appends the rows that sum `i` is made of, in the order in which they are added.
  using Parts = std::function<void(std::int64_t i, std::vector<const T*>& parts)>;
  using WireParts = std::function<void(std::int64_t i, std::vector<const std::byte*>& parts)>;

  // sums[count][hidden] of encoded rows.
  void from_wire(std::int64_t count, const WireParts&, T* sums);

  // Encoded sums, one after the other.
  void to_wire(std::int64_t count, const Parts&, std::byte* sums);

  // The same of encoded rows.
  void through_wire(std::int64_t count, const WireParts&, std::byte* sums);

  // These rows, encoded one after the other; good until the next call, or as long as `rows` when nothing is rounded.
  const std::byte* encoded(const T* rows, std::int64_t count);

  // rows[count][hidden], encoded one after the other.
  void encode(const T* rows, std::int64_t count, std::byte* to) const;

  // Encoded rows that follow one another.
  void decode(const std::byte* from, std::int64_t count, T* rows) const;

 private:
  void decode_parts();
  void sum_parts(std::int64_t count, T* sums);

  RowCodec<T> codec_;
  std::int64_t hidden_;
  PhaseClock* phases_;
  // Of the chunk at hand:
  std::vector<const std::byte*> wire_parts_;
  std::vector<const T*> parts_;
  std::vector<std::size_t> first_part_;
  std::vector<T> decoded_, sums_;

  std::vector<std::byte> encoded_;
};

}  // namespace mrb
