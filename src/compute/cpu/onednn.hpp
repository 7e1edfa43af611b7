// The one place that speaks to oneDNN. Versions 2 and 3 both compile.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "compute/matrix.hpp"

namespace mrb {

enum class Transposed { no, yes };

// A factor or a result whose rows are `stride` elements apart.
struct Strided {
  const float* data = nullptr;
  std::int64_t stride = 0;
  Transposed transposed = Transposed::no;
};

// c[m][n] (+)= factor * op(a)[m][k] * op(b)[k][n], in f32.
struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Strided a;
  Strided b;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  float factor = 1;
  Store store = Store::replace;
};

// Throws Error(internal) with oneDNN's code when it refuses.
void multiply(const Product&);

// Which oneDNN this process has loaded, and the instruction set it uses.
std::string onednn_text();

// Products whose factors are rounded to bf16 and whose sums are f32. Keeps a kernel for every shape it has seen.
// Throws Error(environment) when this processor has no instructions for it: an emulation would be slower than f32
// and would pass for the real thing.
class Bf16Products {
 public:
  Bf16Products();
  ~Bf16Products();

  // Stored bf16 numbers.
  using Number = std::uint16_t;

  // c[m][n] (+)= a[m][k] * b[k][n]; a and c have no gaps between rows, b neither, and is [n][k] when transposed.
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Number* a, const Number* b,
                Transposed b_transposed, float* c, Store);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Rounds to nearest, ties to even.
void to_bf16(const float* from, Bf16Products::Number* to, std::int64_t count);

}  // namespace mrb
