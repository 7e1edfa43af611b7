#include "compute/products.hpp"

#include <algorithm>
#include <vector>

#include "compute/cpu/cpu_products.hpp"
#include "compute/cpu/onednn.hpp"
#include "compute/cpu/parallel.hpp"

namespace mrb {

namespace {

// Rows of each group, one after the other: calls work(group, first row, rows) for those that have any.
template <class Work>
void for_each_group(std::span<const std::int64_t> rows_of, const Work& work) {
  std::int64_t first = 0;
  for (std::size_t group = 0; group < rows_of.size(); ++group) {
    if (rows_of[group] > 0) work(static_cast<std::int64_t>(group), first, rows_of[group]);
    first += rows_of[group];
  }
}

// What both kinds of packed weights know of their shape.
struct GroupShape {
  std::int64_t out = 0;
  std::int64_t in = 0;

  GroupShape(ConstMatrix weights, int groups) : out(weights.rows / groups), in(weights.columns) {}
  std::int64_t size() const { return out * in; }
};

// ---- f32: oneDNN's sgemm packs as it goes, so the weights are used where they are.

struct F32Weights final : PackedWeights {
  F32Weights(ConstMatrix weights, int groups)
      : shape(weights, groups), data(weights.data, weights.data + weights.size()) {}

  GroupShape shape;
  std::vector<float> data;
};

class F32Products final : public ProductOps {
 public:
  std::unique_ptr<PackedWeights> pack(ConstMatrix weights, int groups) override {
    return std::make_unique<F32Weights>(weights, groups);
  }

  void repack(PackedWeights& packed, ConstMatrix weights) override {
    std::copy_n(weights.data, weights.size(), static_cast<F32Weights&>(packed).data.data());
  }

  void forward(const PackedWeights& packed, std::span<const std::int64_t> rows_of, ConstMatrix x, Matrix y) override {
    const auto& weights = static_cast<const F32Weights&>(packed);
    const auto [out, in] = weights.shape;
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      multiply({.m = rows, .n = out, .k = in,
                .a = {x.row(first), in},
                .b = {weights.data.data() + group * weights.shape.size(), in, Transposed::yes},
                .c = y.row(first), .c_stride = out});
    });
  }

  void input_gradient(const PackedWeights& packed, std::span<const std::int64_t> rows_of, ConstMatrix dy, Matrix dx,
                      Store store) override {
    const auto& weights = static_cast<const F32Weights&>(packed);
    const auto [out, in] = weights.shape;
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      multiply({.m = rows, .n = in, .k = out,
                .a = {dy.row(first), out},
                .b = {weights.data.data() + group * weights.shape.size(), in},
                .c = dx.row(first), .c_stride = in, .store = store});
    });
  }

  void weight_gradient(std::span<const std::int64_t> rows_of, ConstMatrix dy, ConstMatrix x, Matrix dw) override {
    const std::int64_t out = dy.columns, in = x.columns;
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      multiply({.m = out, .n = in, .k = rows,
                .a = {dy.row(first), out, Transposed::yes},
                .b = {x.row(first), in},
                .c = dw.row(group * out), .c_stride = in, .store = Store::add});
    });
  }
};

// ---- bf16: weights are rounded once, when they are packed; the other factor on every call.

struct Bf16Weights final : PackedWeights {
  explicit Bf16Weights(ConstMatrix weights, int groups)
      : shape(weights, groups), data(static_cast<std::size_t>(weights.size())) {}

  GroupShape shape;
  std::vector<Bf16Products::Number> data;
};

// Kernels are made for a shape, and experts get a different number of rows every time. Rows are therefore taken in
// powers of two, the largest first, so that a handful of kernels serves them all.
constexpr std::int64_t kRowsAtOnce = 512;

template <class Work>
void in_powers_of_two(std::int64_t rows, const Work& work) {
  std::int64_t done = 0;
  for (std::int64_t size = kRowsAtOnce; size > 0; size /= 2) {
    for (; rows - done >= size; done += size) work(done, size);
  }
}

class Bf16ProductOps final : public ProductOps {
 public:
  std::unique_ptr<PackedWeights> pack(ConstMatrix weights, int groups) override {
    auto packed = std::make_unique<Bf16Weights>(weights, groups);
    to_bf16(weights.data, packed->data.data(), weights.size());
    return packed;
  }

  void repack(PackedWeights& packed, ConstMatrix weights) override {
    to_bf16(weights.data, static_cast<Bf16Weights&>(packed).data.data(), weights.size());
  }

  void forward(const PackedWeights& packed, std::span<const std::int64_t> rows_of, ConstMatrix x, Matrix y) override {
    const auto& weights = static_cast<const Bf16Weights&>(packed);
    const auto [out, in] = weights.shape;
    const Number* rounded = round(x, left_);
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      const Number* w = weights.data.data() + group * weights.shape.size();
      in_powers_of_two(rows, [&](std::int64_t done, std::int64_t count) {
        products_.multiply(count, out, in, rounded + (first + done) * in, w, Transposed::yes, y.row(first + done),
                           Store::replace);
      });
    });
  }

  void input_gradient(const PackedWeights& packed, std::span<const std::int64_t> rows_of, ConstMatrix dy, Matrix dx,
                      Store store) override {
    const auto& weights = static_cast<const Bf16Weights&>(packed);
    const auto [out, in] = weights.shape;
    const Number* rounded = round(dy, left_);
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      const Number* w = weights.data.data() + group * weights.shape.size();
      in_powers_of_two(rows, [&](std::int64_t done, std::int64_t count) {
        products_.multiply(count, in, out, rounded + (first + done) * out, w, Transposed::no, dx.row(first + done),
                           store);
      });
    });
  }

  void weight_gradient(std::span<const std::int64_t> rows_of, ConstMatrix dy, ConstMatrix x, Matrix dw) override {
    const std::int64_t out = dy.columns, in = x.columns;
    const Number* right = round(x, right_);
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      in_powers_of_two(rows, [&](std::int64_t done, std::int64_t count) {
        const Number* left = round_transposed(dy.rows_from(first + done, count));
        products_.multiply(out, in, count, left, right + (first + done) * in, Transposed::no, dw.row(group * out),
                           Store::add);
      });
    });
  }

 private:
  using Number = Bf16Products::Number;

  static const Number* round(ConstMatrix from, std::vector<Number>& to) {
    if (to.size() < static_cast<std::size_t>(from.size())) to.resize(static_cast<std::size_t>(from.size()));
    parallel_for(from.rows, 64, [&](std::int64_t t) {
      to_bf16(from.row(t), to.data() + t * from.columns, from.columns);
    });
    return to.data();
  }

  // from[rows][columns] -> left_[columns][rows], in square tiles that stay in the cache.
  const Number* round_transposed(ConstMatrix from) {
    constexpr std::int64_t kTile = 32;
    if (left_.size() < static_cast<std::size_t>(from.size())) left_.resize(static_cast<std::size_t>(from.size()));
    parallel_for((from.columns + kTile - 1) / kTile, 1, [&](std::int64_t tile) {
      Number rounded[kTile];
      const std::int64_t first = tile * kTile;
      const std::int64_t count = std::min(kTile, from.columns - first);
      for (std::int64_t row = 0; row < from.rows; ++row) {
        to_bf16(from.row(row) + first, rounded, count);
        for (std::int64_t i = 0; i < count; ++i) left_[static_cast<std::size_t>((first + i) * from.rows + row)] = rounded[i];
      }
    });
    return left_.data();
  }

  Bf16Products products_;
  std::vector<Number> left_, right_;  // rounded factors of the call at hand
};

}  // namespace

std::unique_ptr<ProductOps> make_f32_products() { return std::make_unique<F32Products>(); }
std::unique_ptr<ProductOps> make_bf16_products() { return std::make_unique<Bf16ProductOps>(); }

}  // namespace mrb
