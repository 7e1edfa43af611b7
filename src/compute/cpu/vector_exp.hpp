// exp() in a form that the compiler turns into vector instructions.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace mrb {

// e^x within 2 units in the last place, from the polynomial of the Cephes library; arguments are held within
// [-87.3, 88.0], where the result is a normal number. NaN stays NaN.
inline float vector_exp(float x) {
  constexpr float kLog2e = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // ln 2 in two parts, the first exact in few bits
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * kLog2e + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(kRound) + 127u;
  return p * std::bit_cast<float>(exponent << 23);
}

}  // namespace mrb
