// Views of matrices in a backend's memory.
#pragma once

#include <cstdint>
#include <span>

namespace mrb {

// Row-major, rows next to each other, f32. A view: it owns nothing.
struct Matrix {
  float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  float* row(std::int64_t i) const { return data + i * columns; }
  std::int64_t size() const { return rows * columns; }
  Matrix rows_from(std::int64_t first, std::int64_t count) const { return {row(first), count, columns}; }
};

struct ConstMatrix {
  const float* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  ConstMatrix() = default;
  ConstMatrix(const float* d, std::int64_t r, std::int64_t c) : data(d), rows(r), columns(c) {}
  ConstMatrix(Matrix m) : data(m.data), rows(m.rows), columns(m.columns) {}

  const float* row(std::int64_t i) const { return data + i * columns; }
  std::int64_t size() const { return rows * columns; }
  ConstMatrix rows_from(std::int64_t first, std::int64_t count) const { return {row(first), count, columns}; }
};

// Whether a result replaces what was there or is added to it.
enum class Store { replace, add };

}  // namespace mrb
