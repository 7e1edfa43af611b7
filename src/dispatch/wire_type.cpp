#include "dispatch/wire_type.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.hpp"

namespace mrb {

namespace {

constexpr std::int64_t kBlock = 128;  // elements that share a scale
constexpr float kE4m3Max = 448;
constexpr float kAmaxMin = 1e-4f;  // a block of zeros needs a scale too

constexpr std::string_view kNames[] = {"f32", "bf16", "fp8", "fp8_pow2"};

std::int64_t blocks(std::int64_t hidden) {
  return (hidden + kBlock - 1) / kBlock;
}

// The largest magnitude of a block, or NaN where it holds one.
template <class T>
float largest(const T* values, std::int64_t count) {
  float amax = 0;
  bool has_nan = false;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<float>(std::abs(values[i]));
    has_nan |= magnitude != magnitude;
    amax = std::max(amax, magnitude);
  }
  return has_nan ? std::numeric_limits<float>::quiet_NaN() : std::max(amax, kAmaxMin);
}

// What a decoded number is multiplied by. Rounded up to a power of two: the exponent, one more where there are bits
// behind it.
float scale_of(float amax, WireType type) {
  const float scale = amax / kE4m3Max;
  if (type == WireType::fp8 || !std::isfinite(scale)) return scale;
  const auto bits = std::bit_cast<std::uint32_t>(scale);
  const std::uint32_t exponent = (bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1 : 0);
  return std::bit_cast<float>(std::min(exponent, 0xfeu) << 23);
}

// All 256 numbers.
const std::array<float, 256>& e4m3_numbers() {
  static const auto numbers = [] {
    std::array<float, 256> table{};
    for (std::size_t code = 0; code < table.size(); ++code) table[code] = from_e4m3(static_cast<std::uint8_t>(code));
    return table;
  }();
  return numbers;
}

}  // namespace

WireType parse_wire_type(std::string_view name) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  if (found != std::end(kNames)) return static_cast<WireType>(found - std::begin(kNames));
  throw Error(ErrorKind::config, fmt::format("there is no wire type called '{}'", name),
              "use one of: f32, bf16, fp8, fp8_pow2");
}

std::string wire_type_text(WireType type) {
  return std::string(kNames[static_cast<std::size_t>(type)]);
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);  // rounding could make it an infinity
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

float from_bf16(std::uint16_t number) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(number) << 16);
}

// Sign, 4 bits of exponent with a bias of 7, 3 of mantissa; no infinities, NaN is all ones.
std::uint8_t to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7fu;
  constexpr float kFirstNormal = 0x1p-6f;
  if (magnitude < std::bit_cast<std::uint32_t>(kFirstNormal)) {
    // The last bit of 2^14 is worth 2^-9, which is what a subnormal counts: the addition rounds.
    const float rounded = std::bit_cast<float>(magnitude) + 0x1p14f;
    return sign | static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(rounded) & 0xfu);
  }
  // 20 of the 23 bits behind the point go, and the exponent's bias of 127 becomes 7.
  const std::uint32_t rounded = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
  constexpr std::uint32_t kBias = (127 - 7) << 3;
  return sign | static_cast<std::uint8_t>(std::min(rounded - kBias, 0x7eu));
}

float from_e4m3(std::uint8_t code) {
  const int exponent = code >> 3 & 0xf, mantissa = code & 0x7;
  float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                  : std::ldexp(1 + static_cast<float>(mantissa) / 8, exponent - 7);
  if ((code & 0x7f) == 0x7f) magnitude = std::numeric_limits<float>::quiet_NaN();
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

template <class T>
RowCodec<T>::RowCodec(WireType type, std::int64_t hidden) : type_(type), hidden_(hidden) {
  const auto count = static_cast<std::size_t>(hidden), scales = static_cast<std::size_t>(blocks(hidden));
  switch (type) {
    case WireType::native:
      row_bytes_ = count * sizeof(T);
      break;
    case WireType::bf16:
      row_bytes_ = count * 2;
      break;
    case WireType::fp8:
      row_bytes_ = count + scales * sizeof(float);
      break;
    case WireType::fp8_pow2:
      row_bytes_ = count + scales;
      break;
  }
}

template <class T>
void RowCodec<T>::encode(const T* row, std::byte* to) const {
  if (type_ == WireType::native) {
    std::memcpy(to, row, row_bytes_);
    return;
  }
  if (type_ == WireType::bf16) {
    auto* numbers = reinterpret_cast<std::uint16_t*>(to);
    for (std::int64_t h = 0; h < hidden_; ++h) numbers[h] = to_bf16(static_cast<float>(row[h]));
    return;
  }
  auto* codes = reinterpret_cast<std::uint8_t*>(to);
  std::byte* scales = to + hidden_;
  for (std::int64_t first = 0; first < hidden_; first += kBlock) {
    const std::int64_t count = std::min(kBlock, hidden_ - first);
    const float amax = largest(row + first, count);
    const float scale = scale_of(amax, type_);
    const float factor = type_ == WireType::fp8 ? kE4m3Max / amax : 1 / scale;
    for (std::int64_t h = first; h < first + count; ++h) codes[h] = to_e4m3(static_cast<float>(row[h]) * factor);
    if (type_ == WireType::fp8) {
      std::memcpy(scales, &scale, sizeof scale);
      scales += sizeof scale;
    } else {
      *scales++ = static_cast<std::byte>(std::bit_cast<std::uint32_t>(scale) >> 23);
    }
  }
}

template <class T>
void RowCodec<T>::decode(const std::byte* from, T* row) const {
  if (type_ == WireType::native) {
    std::memcpy(row, from, row_bytes_);
    return;
  }
  if (type_ == WireType::bf16) {
    const auto* numbers = reinterpret_cast<const std::uint16_t*>(from);
    for (std::int64_t h = 0; h < hidden_; ++h) row[h] = static_cast<T>(from_bf16(numbers[h]));
    return;
  }
  const auto& numbers = e4m3_numbers();
  const auto* codes = reinterpret_cast<const std::uint8_t*>(from);
  const std::byte* scales = from + hidden_;
  for (std::int64_t first = 0; first < hidden_; first += kBlock) {
    float scale;
    if (type_ == WireType::fp8) {
      std::memcpy(&scale, scales, sizeof scale);
      scales += sizeof scale;
    } else {
      scale = std::bit_cast<float>(static_cast<std::uint32_t>(*scales++) << 23);
    }
    const std::int64_t end = std::min(first + kBlock, hidden_);
    for (std::int64_t h = first; h < end; ++h) row[h] = static_cast<T>(numbers[codes[h]] * scale);
  }
}

template class RowCodec<float>;
template class RowCodec<double>;

}  // namespace mrb
