// Products of a linear layer against loops in f64.
#include "compute/products.hpp"

#include <bit>

#include "base/error.hpp"
#include "compute/matrices.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace mrb::test {

namespace {

using Groups = std::vector<std::int64_t>;

// Sums of some hundred terms in f32. Wrong rows or columns would be off by about 1.
constexpr double kDistanceMax = 1e-6;

std::int64_t total(const Groups& rows_of) {
  std::int64_t rows = 0;
  for (const std::int64_t count : rows_of) rows += count;
  return rows;
}

// One linear layer, or a group of them, with input and output gradients of chance.
struct Case {
  Groups rows_of;
  std::int64_t out;
  std::int64_t in;
  Numbers weights = draw(1, static_cast<std::int64_t>(rows_of.size()) * out, in);
  Numbers x = draw(2, total(rows_of), in);
  Numbers dy = draw(3, total(rows_of), out);
  Numbers old_dx = draw(4, total(rows_of), in);
  Numbers old_dw = draw(5, weights.rows, in);

  int groups() const { return static_cast<int>(rows_of.size()); }

  // work(row, row of the group's first weight)
  template <class Work>
  void for_each_row(const Work& work) const {
    std::int64_t row = 0;
    for (std::size_t group = 0; group < rows_of.size(); ++group) {
      for (std::int64_t i = 0; i < rows_of[group]; ++i) work(row++, static_cast<std::int64_t>(group) * out);
    }
  }

  std::vector<double> expected_y() const {
    std::vector<double> y;
    for_each_row([&](std::int64_t row, std::int64_t weight) {
      for (std::int64_t o = 0; o < out; ++o) {
        y.push_back(0);
        for (std::int64_t i = 0; i < in; ++i) y.back() += double{x.at(row, i)} * double{weights.at(weight + o, i)};
      }
    });
    return y;
  }

  std::vector<double> expected_dx(Store store) const {
    std::vector<double> dx;
    for_each_row([&](std::int64_t row, std::int64_t weight) {
      for (std::int64_t i = 0; i < in; ++i) {
        dx.push_back(store == Store::add ? double{old_dx.at(row, i)} : 0.0);
        for (std::int64_t o = 0; o < out; ++o) {
          dx.back() += double{dy.at(row, o)} * double{weights.at(weight + o, i)};
        }
      }
    });
    return dx;
  }

  std::vector<double> expected_dw() const {
    std::vector<double> dw(old_dw.values.begin(), old_dw.values.end());
    for_each_row([&](std::int64_t row, std::int64_t weight) {
      for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t i = 0; i < in; ++i) {
          dw[static_cast<std::size_t>((weight + o) * in + i)] += double{dy.at(row, o)} * double{x.at(row, i)};
        }
      }
    });
    return dw;
  }
};

// Single matrices and groups, odd sizes, groups without rows at the beginning, inside and at the end, and row counts
// around those at which a backend may cut: 32 and 512.
std::vector<Case> cases() {
  return {{{1}, 1, 1},
          {{7}, 5, 3},
          {{0, 3, 0, 0, 17, 1, 0}, 9, 13},
          {{64, 64}, 32, 48},
          {{31, 32, 33}, 21, 37},
          {{513, 0, 511}, 16, 19},
          {{1061}, 11, 33},
          {{0}, 4, 4}};
}

// The products of `ops` on this case, against the loops.
void check(ProductOps& ops, const Case& c) {
  INFO("rows of group 0: " << c.rows_of[0] << ", groups " << c.groups() << ", out " << c.out << ", in " << c.in);
  const auto packed = ops.pack(c.weights.view(), c.groups());
  const auto close = [](const Numbers& actual, const std::vector<double>& expected) {
    return expected.empty() || relative_distance(actual.values, expected) < kDistanceMax;
  };

  Numbers y(c.x.rows, c.out, NAN);  // what was there does not matter
  ops.forward(*packed, c.rows_of, c.x.view(), y.view());
  CHECK(close(y, c.expected_y()));

  Numbers dx(c.x.rows, c.in, NAN);
  ops.input_gradient(*packed, c.rows_of, c.dy.view(), dx.view(), Store::replace);
  CHECK(close(dx, c.expected_dx(Store::replace)));
  dx = c.old_dx;
  ops.input_gradient(*packed, c.rows_of, c.dy.view(), dx.view(), Store::add);
  CHECK(close(dx, c.expected_dx(Store::add)));

  Numbers dw = c.old_dw;
  ops.weight_gradient(c.rows_of, c.dy.view(), c.x.view(), dw.view());
  CHECK(close(dw, c.expected_dw()));
}

// The nearest number with 8 significant bits, ties to even, worked out by arithmetic rather than on bits.
float nearest_bf16(float value) {
  if (value == 0) return value;
  const double unit = std::ldexp(1.0, std::ilogb(value) - 7);
  return static_cast<float>(std::nearbyint(double{value} / unit) * unit);
}

Numbers nearest_bf16(Numbers numbers) {
  for (float& value : numbers.values) value = nearest_bf16(value);
  return numbers;
}

// Null on a processor without instructions for it, which is said.
std::unique_ptr<ComputeBackend> make_bf16() {
  try {
    return make_compute("cpu", {.dtype = "bf16"});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) throw;
    WARN("skipped: " << error.what());
    return nullptr;
  }
}

}  // namespace

TEST_CASE("f32 products are those of plain loops", "[compute]") {
  const auto compute = make_compute("cpu", {});
  for (const Case& c : cases()) check(compute->operations().products, c);
}

TEST_CASE("bf16 products are those of plain loops on rounded factors", "[compute]") {
  const auto compute = make_bf16();
  if (!compute) return;
  // The same operations, case after case, so that one call's rounded factors lie where the next one's will.
  for (Case c : cases()) {
    // Rounding what is given leaves what is rounded already; only sums and what they are added to stay f32.
    c.weights = nearest_bf16(c.weights);
    c.x = nearest_bf16(c.x);
    c.dy = nearest_bf16(c.dy);
    check(compute->operations().products, c);
  }
}

TEST_CASE("factors are rounded to the nearest bf16, ties to even", "[compute]") {
  const auto compute = make_bf16();
  if (!compute) return;
  ProductOps& ops = compute->operations().products;
  const Case c{{40}, 6, 50};
  Case rounded = c;
  rounded.weights = nearest_bf16(c.weights);
  rounded.x = nearest_bf16(c.x);
  rounded.dy = nearest_bf16(c.dy);
  const auto packed = ops.pack(c.weights.view(), 1);
  Numbers y(40, 6), dx(40, 50), dw = c.old_dw;
  ops.forward(*packed, c.rows_of, c.x.view(), y.view());
  ops.input_gradient(*packed, c.rows_of, c.dy.view(), dx.view(), Store::replace);
  ops.weight_gradient(c.rows_of, c.dy.view(), c.x.view(), dw.view());
  CHECK(relative_distance(y.values, rounded.expected_y()) < kDistanceMax);
  CHECK(relative_distance(dx.values, rounded.expected_dx(Store::replace)) < kDistanceMax);
  CHECK(relative_distance(dw.values, rounded.expected_dw()) < kDistanceMax);

  // Halves between two numbers of 8 bits go to the even one: 1 + 1/256 down to 1, 1 + 3/256 up to 1 + 4/256.
  const Numbers one(1, 1, 1);
  const auto identity = ops.pack(one.view(), 1);
  const Groups three = {3};
  Numbers halves(3, 1), out(3, 1);
  halves.values = {1 + 1.0f / 256, 1 + 3.0f / 256, -1 - 1.0f / 256};
  ops.forward(*identity, three, halves.view(), out.view());
  CHECK(out.values == std::vector<float>{1, 1 + 4.0f / 256, -1});
}

TEST_CASE("with bf16 chosen the f32 products are still f32", "[compute]") {
  const auto compute = make_bf16();
  if (!compute) return;
  check(compute->operations().f32_products, {{31, 32, 33}, 21, 37});
}

TEST_CASE("one group's numbers never reach another's", "[compute]") {
  for (const char* dtype : {"f32", "bf16"}) {
    const auto compute = std::string(dtype) == "f32" ? make_compute("cpu", {}) : make_bf16();
    if (!compute) return;
    INFO(dtype);
    ProductOps& ops = compute->operations().products;
    const Groups rows_of = {5, 7};
    Numbers weights = draw(1, 2 * 8, 6), x = draw(2, 12, 6), dy = draw(3, 12, 8);
    for (std::int64_t row = 5; row < 12; ++row) {  // all of the second group is infinite
      for (std::int64_t i = 0; i < 6; ++i) x.at(row, i) = INFINITY;
      for (std::int64_t o = 0; o < 8; ++o) dy.at(row, o) = INFINITY;
    }
    const auto packed = ops.pack(weights.view(), 2);
    Numbers y(12, 8), dx(12, 6), dw(16, 6);
    ops.forward(*packed, rows_of, x.view(), y.view());
    ops.input_gradient(*packed, rows_of, dy.view(), dx.view(), Store::replace);
    ops.weight_gradient(rows_of, dy.view(), x.view(), dw.view());
    const auto finite = [](const Numbers& numbers, std::int64_t rows) {
      for (std::int64_t i = 0; i < rows * numbers.columns; ++i) {
        if (!std::isfinite(numbers.values[static_cast<std::size_t>(i)])) return false;
      }
      return true;
    };
    CHECK(finite(y, 5));
    CHECK(finite(dx, 5));
    CHECK(finite(dw, 8));
  }
}

TEST_CASE("packed weights are a copy, which repacking brings up to date", "[compute]") {
  const auto compute = make_compute("cpu", {});
  ProductOps& ops = compute->operations().products;
  Numbers weights(1, 1, 3);
  const Numbers x(1, 1, 2);
  Numbers y(1, 1);
  const Groups one = {1};
  const auto packed = ops.pack(weights.view(), 1);
  weights.values[0] = 5;
  ops.forward(*packed, one, x.view(), y.view());
  CHECK(y.values[0] == 6);
  ops.repack(*packed, weights.view());
  ops.forward(*packed, one, x.view(), y.view());
  CHECK(y.values[0] == 10);
}

}  // namespace mrb::test
