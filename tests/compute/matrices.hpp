// A backend with matrices of chance, for tests of its operations.
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "compute/backend.hpp"

namespace mrb::test {

// A matrix that owns its numbers.
struct Numbers {
  Numbers(std::int64_t row_count, std::int64_t column_count, float value = 0)
      : rows(row_count), columns(column_count), values(static_cast<std::size_t>(row_count * column_count), value) {}

  Matrix view() { return {values.data(), rows, columns}; }
  ConstMatrix view() const { return {values.data(), rows, columns}; }
  float* data() { return values.data(); }
  float& at(std::int64_t row, std::int64_t column) { return values[static_cast<std::size_t>(row * columns + column)]; }
  float at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }

  std::int64_t rows;
  std::int64_t columns;
  std::vector<float> values;
};

// Normal numbers, always the same for a seed.
inline Numbers draw(std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
  Numbers numbers(rows, columns);
  Random random({seed, Random::payload});
  for (float& value : numbers.values) value = static_cast<float>(random.normal());
  return numbers;
}

inline double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

// d loss() / d values[i] by central differences of fourth order. The step is large, because what is differentiated
// carries the rounding of f32.
template <class Loss>
std::vector<float> slopes(std::vector<float>& values, const Loss& loss) {
  constexpr float kStep = 0.01f;
  std::vector<float> result;
  for (float& value : values) {
    const float start = value;
    const auto at = [&](float distance) {
      value = start + distance;
      const double here = loss();
      value = start;
      return here;
    };
    const double slope = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * double{kStep});
    result.push_back(static_cast<float>(slope));
  }
  return result;
}

}  // namespace mrb::test
