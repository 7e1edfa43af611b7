// Numbers for kernels, in the types that they have in memory.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/random.hpp"
#include "dispatch/wire_type.hpp"

namespace mrb::test {

struct Bf16Bits {
  std::uint16_t bits;
};

inline float to_float(float value) {
  return value;
}
inline float to_float(Bf16Bits value) {
  return from_bf16(value.bits);
}

template <class T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    return {to_bf16(value)};
  }
}

template <class T>
std::vector<T> to_elements(const std::vector<float>& values) {
  std::vector<T> elements;
  for (const float value : values) elements.push_back(from_float<T>(value));
  return elements;
}

template <class T>
std::vector<float> to_floats(const std::vector<T>& elements) {
  std::vector<float> values;
  for (const T element : elements) values.push_back(to_float(element));
  return values;
}

// From -0.5 to 0.5.
inline std::vector<float> random_floats(std::size_t count, std::uint64_t seed) {
  Random random({seed});
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform() - 0.5);
  return values;
}

// The same, such as T can hold.
template <class T>
std::vector<float> floats_of(std::size_t count, std::uint64_t seed) {
  return to_floats(to_elements<T>(random_floats(count, seed)));
}

}  // namespace mrb::test
