// Numbers on the wire against their definitions: the nearest of all that the type has, found by trying them all.
#include "dispatch/wire_type.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.hpp"
#include "support/catch.hpp"

namespace mrb::test {

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The nearest E4M3 number; of two, the one whose last bit is 0.
float nearest_e4m3(float value) {
  double best = std::numeric_limits<double>::infinity();
  int best_code = 0;
  for (int code = 0; code < 127; ++code) {
    const double distance = std::abs(std::abs(double{value}) - from_e4m3(static_cast<std::uint8_t>(code)));
    if (distance < best || (distance == best && code % 2 == 0)) {
      best = distance;
      best_code = code;
    }
  }
  return std::copysign(from_e4m3(static_cast<std::uint8_t>(best_code)), value);
}

// To the wire and back.
std::vector<float> through(WireType type, const std::vector<float>& row) {
  const RowCodec<float> codec(type, static_cast<std::int64_t>(row.size()));
  std::vector<std::byte> encoded(codec.row_bytes());
  std::vector<float> decoded(row.size());
  codec.encode(row.data(), encoded.data());
  codec.decode(encoded.data(), decoded.data());
  return decoded;
}

std::vector<float> random_row(std::uint64_t seed, std::size_t count, float scale) {
  Random random({seed});
  std::vector<float> row(count);
  for (float& value : row) value = static_cast<float>(random.normal()) * scale;
  return row;
}

}  // namespace

// The table of the OCP 8-bit floating point specification, revision 1.0.
TEST_CASE("E4M3 has the numbers of its specification", "[dispatch]") {
  CHECK(from_e4m3(0x00) == 0);
  CHECK(std::signbit(from_e4m3(0x80)));
  CHECK(from_e4m3(0x01) == std::ldexp(1.0f, -9));    // smallest subnormal
  CHECK(from_e4m3(0x07) == std::ldexp(0.875f, -6));  // largest subnormal
  CHECK(from_e4m3(0x08) == std::ldexp(1.0f, -6));    // smallest normal
  CHECK(from_e4m3(0x38) == 1);
  CHECK(from_e4m3(0x7e) == 448);  // largest normal
  CHECK(from_e4m3(0xfe) == -448);
  CHECK(std::isnan(from_e4m3(0x7f)));
  CHECK(std::isnan(from_e4m3(0xff)));
}

TEST_CASE("every E4M3 number is kept, and others go to the nearest, ties to even", "[dispatch]") {
  for (int code = 0; code < 256; ++code) {
    const float value = from_e4m3(static_cast<std::uint8_t>(code));
    if (!std::isnan(value)) CHECK(to_e4m3(value) == code);
  }
  for (int code = 0; code < 126; ++code) {  // halfway between neighbours, and a little to both sides
    const float low = from_e4m3(static_cast<std::uint8_t>(code)), high = from_e4m3(static_cast<std::uint8_t>(code + 1));
    const float half = (low + high) / 2;
    for (const float value : {half, std::nextafter(half, 0.0f), std::nextafter(half, 500.0f), -half}) {
      CHECK(from_e4m3(to_e4m3(value)) == nearest_e4m3(value));
    }
  }
  for (const float value : random_row(1, 2000, 20)) CHECK(from_e4m3(to_e4m3(value)) == nearest_e4m3(value));
  CHECK(from_e4m3(to_e4m3(1e9f)) == 448);
  CHECK(from_e4m3(to_e4m3(-kInfinity)) == -448);
  CHECK(std::isnan(from_e4m3(to_e4m3(kNan))));
}

TEST_CASE("bf16 rounds to nearest, ties to even", "[dispatch]") {
  CHECK(to_bf16(1.0f) == 0x3f80);
  CHECK(to_bf16(std::bit_cast<float>(0x3f808000u)) == 0x3f80);  // halfway, to the even one below
  CHECK(to_bf16(std::bit_cast<float>(0x3f818000u)) == 0x3f82);  // halfway, to the even one above
  CHECK(to_bf16(std::bit_cast<float>(0x3f808001u)) == 0x3f81);
  CHECK(from_bf16(to_bf16(-kInfinity)) == -kInfinity);
  CHECK(std::isnan(from_bf16(to_bf16(std::bit_cast<float>(0x7f800001u)))));  // whose upper half is an infinity
  CHECK(from_bf16(to_bf16(std::numeric_limits<float>::max())) == kInfinity);
}

TEST_CASE("rows take as many bytes as their numbers and scales", "[dispatch]") {
  const auto bytes = [](WireType type, std::int64_t hidden) { return RowCodec<float>(type, hidden).row_bytes(); };
  CHECK(bytes(WireType::native, 7168) == 28672);
  CHECK(bytes(WireType::bf16, 7168) == 14336);
  CHECK(bytes(WireType::fp8, 7168) == 7168 + 56 * 4);
  CHECK(bytes(WireType::fp8_pow2, 7168) == 7168 + 56);
  CHECK(bytes(WireType::fp8, 129) == 129 + 2 * 4);
  CHECK(RowCodec<double>(WireType::native, 3).row_bytes() == 24);
}

TEST_CASE("fp8 scales each block by its own largest element", "[dispatch]") {
  // Both blocks' largest becomes 448, whatever its size, and comes back within rounding of its scale.
  std::vector<float> row(256, 0.0f);
  row[5] = 3000;
  row[6] = -1500;
  row[200] = 1e-3f;
  row[201] = 5e-4f;
  const auto decoded = through(WireType::fp8, row);
  CHECK(decoded[5] == Approx(3000));
  CHECK(decoded[6] == Approx(-1500));
  CHECK(decoded[200] == Approx(1e-3));
  CHECK(decoded[201] == Approx(5e-4));
  CHECK(decoded[7] == 0);
}

TEST_CASE("fp8_pow2 scales by the next power of two", "[dispatch]") {
  // 448 needs a scale of exactly 1, 449 one of 2; with it, odd numbers above 256 / 8 are no longer kept.
  CHECK(through(WireType::fp8_pow2, {448, 13}) == std::vector<float>{448, 13});
  CHECK(through(WireType::fp8_pow2, {449, 13}) == std::vector<float>{448, 13});
  CHECK(through(WireType::fp8_pow2, {449, 2.0f * 0x1p-9f}) == std::vector<float>{448, 2.0f * 0x1p-9f});
  CHECK(through(WireType::fp8_pow2, {449, 0x1p-9f})[1] == 0);  // half of the smallest, to even
}

TEST_CASE("an element is rounded by no more than its type allows", "[dispatch]") {
  for (const std::size_t hidden : {1u, 100u, 128u, 129u, 1000u}) {
    const auto row = random_row(hidden, hidden, 3);
    const auto check = [&](WireType type, double relative, double of_largest) {
      const auto decoded = through(type, row);
      for (std::size_t h = 0; h < hidden; ++h) {
        float largest = 0;
        for (std::size_t i = h / 128 * 128; i < std::min(hidden, h / 128 * 128 + 128); ++i) {
          largest = std::max(largest, std::abs(row[i]));
        }
        CHECK(std::abs(decoded[h] - row[h]) <= relative * std::abs(row[h]) + of_largest * largest);
      }
    };
    check(WireType::native, 0, 0);
    check(WireType::bf16, 0x1p-8, 0);
    check(WireType::fp8, 0x1p-4, 0x1p-10 / 448 * 1.01);
    check(WireType::fp8_pow2, 0x1p-4, 0x1p-9 / 448 * 1.01);
  }
}

TEST_CASE("what is not finite is not made finite", "[dispatch]") {
  for (const WireType type : {WireType::bf16, WireType::fp8, WireType::fp8_pow2}) {
    CHECK(std::isnan(through(type, {1, kNan, 2})[1]));
    CHECK_FALSE(std::isfinite(through(type, {1, kInfinity, 2})[1]));
  }
}

TEST_CASE("a wire type has a name, and no other", "[dispatch]") {
  for (const char* name : {"f32", "bf16", "fp8", "fp8_pow2"}) CHECK(wire_type_text(parse_wire_type(name)) == name);
  CHECK_THROWS_WITH(parse_wire_type("fp4"), contains("there is no wire type called 'fp4'"));
}

}  // namespace mrb::test
