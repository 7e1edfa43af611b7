#include "compute/products.hpp"

#include <algorithm>
#include <bit>
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

// ---- f32: oneDNN's sgemm packs as it goes, so packing beforehand is a plain copy.

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
      multiply({.m = rows,
                .n = out,
                .k = in,
                .a = {x.row(first), in},
                .b = {weights.data.data() + group * weights.shape.size(), in, Transposed::yes},
                .c = y.row(first),
                .c_stride = out});
    });
  }

  void input_gradient(const PackedWeights& packed, std::span<const std::int64_t> rows_of, ConstMatrix dy, Matrix dx,
                      Store store) override {
    const auto& weights = static_cast<const F32Weights&>(packed);
    const auto [out, in] = weights.shape;
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      multiply({.m = rows,
                .n = in,
                .k = out,
                .a = {dy.row(first), out},
                .b = {weights.data.data() + group * weights.shape.size(), in},
                .c = dx.row(first),
                .c_stride = in,
                .store = store});
    });
  }

  void weight_gradient(std::span<const std::int64_t> rows_of, ConstMatrix dy, ConstMatrix x, Matrix dw) override {
    const std::int64_t out = dy.columns, in = x.columns;
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      multiply({.m = out,
                .n = in,
                .k = rows,
                .a = {dy.row(first), out, Transposed::yes},
                .b = {x.row(first), in},
                .c = dw.row(group * out),
                .c_stride = in,
                .store = Store::add});
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
// blocks of few sizes: as many of the largest as there are, one of a multiple of kRowStep, and what is left is made up
// to a power of two.
constexpr std::int64_t kRowsAtOnce = 512;
constexpr std::int64_t kRowStep = 32;

struct RowBlock {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t padded = 0;  // with the rows that are computed for nothing
};

template <class Work>
void for_each_block(std::int64_t rows, const Work& work) {
  std::int64_t first = 0;
  for (; rows - first >= kRowsAtOnce; first += kRowsAtOnce) work(RowBlock{first, kRowsAtOnce, kRowsAtOnce});
  const std::int64_t whole = (rows - first) / kRowStep * kRowStep;
  if (whole > 0) work(RowBlock{first, whole, whole});
  first += whole;
  if (const auto rest = rows - first; rest > 0) {
    work(RowBlock{first, rest, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rest)))});
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
    multiply_groups(packed, rows_of, x, y, Transposed::yes, Store::replace);
  }

  void input_gradient(const PackedWeights& packed, std::span<const std::int64_t> rows_of, ConstMatrix dy, Matrix dx,
                      Store store) override {
    multiply_groups(packed, rows_of, dy, dx, Transposed::no, store);
  }

  void weight_gradient(std::span<const std::int64_t> rows_of, ConstMatrix dy, ConstMatrix x, Matrix dw) override {
    const std::int64_t out = dy.columns, in = x.columns;
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      for (std::int64_t done = 0; done < rows; done += kRowsAtOnce) {
        const std::int64_t count = std::min(kRowsAtOnce, rows - done);
        const std::int64_t padded = (count + kRowStep - 1) / kRowStep * kRowStep;
        // Block by block, so that zeros meet zeros behind the rows: the next group's could be infinite.
        const Number* left = round_transposed(dy.rows_from(first + done, count), padded);
        const Number* right = round(x.rows_from(first + done, count), right_);
        products_.multiply(out, in, padded, left, right, Transposed::no, dw.row(group * out), Store::add);
      }
    });
  }

 private:
  using Number = Bf16Products::Number;

  // y (+)= x W, or x W^T. A block that was made up is computed beside, for y has no room for its other rows.
  void multiply_groups(const PackedWeights& packed, std::span<const std::int64_t> rows_of, ConstMatrix x, Matrix y,
                       Transposed transposed, Store store) {
    const auto& weights = static_cast<const Bf16Weights&>(packed);
    const Number* rounded = round(x, left_);
    for_each_group(rows_of, [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
      const Number* w = weights.data.data() + group * weights.shape.size();
      for_each_block(rows, [&](RowBlock block) {
        const Number* from = rounded + (first + block.first) * x.columns;
        float* to = y.row(first + block.first);
        if (block.padded == block.count) {
          products_.multiply(block.count, y.columns, x.columns, from, w, transposed, to, store);
          return;
        }
        beside_.resize(std::max(beside_.size(), static_cast<std::size_t>(block.padded * y.columns)));
        products_.multiply(block.padded, y.columns, x.columns, from, w, transposed, beside_.data(), Store::replace);
        const std::int64_t size = block.count * y.columns;
        if (store == Store::replace) {
          std::copy_n(beside_.data(), size, to);
        } else {
          for (std::int64_t i = 0; i < size; ++i) to[i] += beside_[static_cast<std::size_t>(i)];
        }
      });
    });
  }

  // Behind the last row are zeros for a block that is made up.
  static const Number* round(ConstMatrix from, std::vector<Number>& to) {
    const std::int64_t size = from.size() + kRowStep * from.columns;
    to.resize(std::max(to.size(), static_cast<std::size_t>(size)));
    parallel_for(from.rows, 64,
                 [&](std::int64_t t) { to_bf16(from.row(t), to.data() + t * from.columns, from.columns); });
    std::fill(to.begin() + from.size(), to.begin() + size, Number{0});
    return to.data();
  }

  // from[rows][columns] -> left_[columns][padded], zeros behind the rows, in square tiles that stay in the cache.
  const Number* round_transposed(ConstMatrix from, std::int64_t padded) {
    constexpr std::int64_t kTile = 32;
    left_.resize(std::max(left_.size(), static_cast<std::size_t>(padded * from.columns)));
    parallel_for((from.columns + kTile - 1) / kTile, 1, [&](std::int64_t tile) {
      Number rounded[kTile] = {};
      const std::int64_t first = tile * kTile;
      const std::int64_t count = std::min(kTile, from.columns - first);
      for (std::int64_t row = 0; row < padded; ++row) {
        if (row < from.rows) {
          to_bf16(from.row(row) + first, rounded, count);
        } else {
          std::fill_n(rounded, kTile, Number{0});
        }
        for (std::int64_t i = 0; i < count; ++i)
          left_[static_cast<std::size_t>((first + i) * padded + row)] = rounded[i];
      }
    });
    return left_.data();
  }

  Bf16Products products_;
  std::vector<Number> left_, right_;  // rounded factors of the call at hand
  std::vector<float> beside_;
};

}  // namespace

std::unique_ptr<ProductOps> make_f32_products() {
  return std::make_unique<F32Products>();
}
std::unique_ptr<ProductOps> make_bf16_products() {
  return std::make_unique<Bf16ProductOps>();
}

}  // namespace mrb
