// Which numbers cross the wire: rows as they are in memory, or rounded to fewer bytes for the journey.
//
//   native     f32 (f64 in tests): nothing is lost
//   bf16       rounded to nearest, ties to even
//   fp8        E4M3 with one f32 scale for each block of 128 elements: amax / 448, amax at least 1e-4
//   fp8_pow2   the same with the scale rounded up to a power of two, of which one byte crosses: its exponent
//
// An encoded row is [hidden numbers][scales], and the next row follows without a gap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mrb {

enum class WireType { native, bf16, fp8, fp8_pow2 };

// "f32" (native), "bf16", "fp8", "fp8_pow2". Throws Error(config) for any other.
WireType parse_wire_type(std::string_view);
std::string wire_type_text(WireType);

// Rows of `hidden` elements of type T (float or double), to the wire and back.
template <class T>
class RowCodec {
 public:
  RowCodec(WireType type, std::int64_t hidden);

  WireType type() const { return type_; }
  bool is_native() const { return type_ == WireType::native; }

  std::size_t row_bytes() const { return row_bytes_; }

  void encode(const T* row, std::byte* to) const;
  void decode(const std::byte* from, T* row) const;

 private:
  WireType type_;
  std::int64_t hidden_;
  std::size_t row_bytes_;
};

// One number of each type, for tests and for the code above. NaN stays NaN; fp8 saturates at 448.
std::uint16_t to_bf16(float);
float from_bf16(std::uint16_t);
std::uint8_t to_e4m3(float);
float from_e4m3(std::uint8_t);

}  // namespace mrb
