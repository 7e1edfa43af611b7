// Attention against the formula, row by row in f64.
#include "compute/attention.hpp"

#include "compute/matrices.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace mrb::test {

namespace {

constexpr double kDistanceMax = 1e-5;
constexpr double kSlopeDistanceMax = 1e-3;  // finite differences in f32
constexpr HeadShape kShape{.heads = 4, .kv_heads = 2, .head_dim = 8};

struct Attention {
  std::unique_ptr<ComputeBackend> compute = make_compute("cpu", {});
  AttentionOps& ops = compute->operations().attention;
};

struct Attended {
  std::vector<double> out;
  std::vector<double> log_sum;  // [heads][rows]
};

Attended plain(const Numbers& qkv, const std::vector<std::int32_t>& offsets, HeadShape shape) {
  Attended result;
  result.out.resize(static_cast<std::size_t>(qkv.rows * shape.q_width()));
  result.log_sum.resize(static_cast<std::size_t>(qkv.rows * shape.heads));
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (std::int64_t row = offsets[s]; row < offsets[s + 1]; ++row) {
      for (int h = 0; h < shape.heads; ++h) {
        const int kv_head = h * shape.kv_heads / shape.heads;
        const auto at = [&](std::int64_t t, int first, int d) { return double{qkv.at(t, first + d)}; };
        const int q = h * shape.head_dim, k = shape.q_width() + kv_head * shape.head_dim, v = k + shape.kv_width();
        double sum = 0;
        std::vector<double> value(static_cast<std::size_t>(shape.head_dim));
        for (std::int64_t t = offsets[s]; t <= row; ++t) {
          double score = 0;
          for (int d = 0; d < shape.head_dim; ++d) score += at(row, q, d) * at(t, k, d);
          const double weight = std::exp(score / std::sqrt(double(shape.head_dim)));
          sum += weight;
          for (int d = 0; d < shape.head_dim; ++d) value[static_cast<std::size_t>(d)] += weight * at(t, v, d);
        }
        for (int d = 0; d < shape.head_dim; ++d) {
          result.out[static_cast<std::size_t>(row * shape.q_width() + q + d)] =
              value[static_cast<std::size_t>(d)] / sum;
        }
        result.log_sum[static_cast<std::size_t>(h * qkv.rows + row)] = std::log(sum);
      }
    }
  }
  return result;
}

}  // namespace

TEST_CASE("attention is the formula's, for sequences around the block of 64 queries", "[compute]") {
  Attention attention;
  // One packed batch: 1, 63, 64, 65 and 130 tokens, and an empty sequence between.
  const std::vector<std::int32_t> offsets = {0, 1, 64, 64, 128, 193, 323};
  for (const HeadShape shape : {kShape, HeadShape{3, 3, 6}, HeadShape{6, 1, 4}}) {
    INFO("heads " << shape.heads << ", of keys " << shape.kv_heads);
    const Numbers qkv = draw(1, 323, shape.row_width());
    Numbers out(323, shape.q_width(), NAN), log_sum(shape.heads, 323, NAN);
    attention.ops.attend(qkv.view(), offsets, shape, out.view(), log_sum.data());
    const Attended expected = plain(qkv, offsets, shape);
    CHECK(relative_distance(out.values, expected.out) < kDistanceMax);
    CHECK(relative_distance(log_sum.values, expected.log_sum) < kDistanceMax);
  }
}

TEST_CASE("large scores do not overflow", "[compute]") {
  Attention attention;
  const HeadShape shape{1, 1, 2};
  Numbers qkv(2, 6);
  // Scores of the second row: 200 * 200 * 2 / sqrt(2) with itself, minus that with the first. All goes to itself.
  qkv.values = {0, 0, -200, -200, 1, 2, 200, 200, 200, 200, 3, 4};
  Numbers out(2, 2), log_sum(1, 2);
  const std::vector<std::int32_t> offsets = {0, 2};
  attention.ops.attend(qkv.view(), offsets, shape, out.view(), log_sum.data());
  CHECK(out.values == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("attention's gradients are the slopes of its output", "[compute]") {
  Attention attention;
  const HeadShape shape{.heads = 2, .kv_heads = 1, .head_dim = 4};
  // The last sequence is longer than a block, so that a block's gradients are added to another's.
  const std::vector<std::int32_t> offsets = {0, 1, 6, 6, 73};
  Numbers qkv = draw(2, 73, shape.row_width());
  const Numbers dout = draw(3, 73, shape.q_width());
  Numbers out(73, shape.q_width()), log_sum(shape.heads, 73), dqkv(73, shape.row_width(), NAN);
  const auto loss = [&] {
    attention.ops.attend(qkv.view(), offsets, shape, out.view(), log_sum.data());
    return dot(out.values, dout.values);
  };
  loss();
  attention.ops.attend_backward(dout.view(), qkv.view(), out.view(), log_sum.data(), offsets, shape, dqkv.view());
  CHECK(relative_distance(dqkv.values, slopes(qkv.values, loss)) < kSlopeDistanceMax);
}

TEST_CASE("rotation turns the halves of a head as one complex number, values not at all", "[compute]") {
  Attention attention;
  const HeadShape shape{.heads = 1, .kv_heads = 1, .head_dim = 4};
  Numbers qkv(1, 12);
  qkv.values = {1, 0, 0, 1, 2, 0, 0, 0, 5, 6, 7, 8};
  const std::vector<std::int32_t> positions = {3};
  attention.ops.rotate(qkv.view(), positions, shape, 100, Rotation::forward);
  // Number 0 of a head turns by 3 radians, number 1 by 3 * 100^(-2/4) = 0.3: q = (1, i), k = (2, 0).
  CHECK(qkv.at(0, 0) == Approx(std::cos(3.0)));
  CHECK(qkv.at(0, 1) == Approx(-std::sin(0.3)));
  CHECK(qkv.at(0, 2) == Approx(std::sin(3.0)));
  CHECK(qkv.at(0, 3) == Approx(std::cos(0.3)));
  CHECK(qkv.at(0, 4) == Approx(2 * std::cos(3.0)));
  CHECK(qkv.at(0, 6) == Approx(2 * std::sin(3.0)));
  CHECK(std::vector<float>(qkv.values.begin() + 8, qkv.values.end()) == std::vector<float>{5, 6, 7, 8});
}

TEST_CASE("rotation backward undoes rotation forward", "[compute]") {
  Attention attention;
  const Numbers start = draw(4, 40, kShape.row_width());
  Numbers qkv = start;
  std::vector<std::int32_t> positions;
  for (std::int32_t t = 0; t < 40; ++t) positions.push_back(t * 7);
  attention.ops.rotate(qkv.view(), positions, kShape, 10000, Rotation::forward);
  CHECK(relative_distance(qkv.values, start.values) > 0.1);
  attention.ops.rotate(qkv.view(), positions, kShape, 10000, Rotation::backward);
  CHECK(relative_distance(qkv.values, start.values) < 1e-6);
}

TEST_CASE("decoding a token gives the last row of attention, and stores its key and value", "[compute]") {
  Attention attention;
  const std::vector<std::int32_t> offsets = {0, 1, 6, 136};
  const Numbers qkv = draw(5, 136, kShape.row_width());
  Numbers out(136, kShape.q_width()), log_sum(kShape.heads, 136);
  attention.ops.attend(qkv.view(), offsets, kShape, out.view(), log_sum.data());

  const int kv = kShape.kv_width();
  std::vector<Numbers> keys(3, Numbers(130, kv, NAN)), values = keys;
  std::vector<CacheSlot> slots;
  Numbers last(3, kShape.row_width()), decoded(3, kShape.q_width(), NAN);
  for (std::size_t s = 0; s < 3; ++s) {
    const std::int64_t tokens = offsets[s + 1] - offsets[s];
    for (std::int64_t t = 0; t + 1 < tokens; ++t) {  // all but the last token are there already
      const float* row = qkv.view().row(offsets[s] + t) + kShape.q_width();
      std::copy_n(row, kv, keys[s].view().row(t));
      std::copy_n(row + kv, kv, values[s].view().row(t));
    }
    std::copy_n(qkv.view().row(offsets[s + 1] - 1), qkv.columns, last.view().row(static_cast<std::int64_t>(s)));
    slots.push_back({keys[s].data(), values[s].data(), tokens});
  }
  attention.ops.decode(last.view(), slots, kShape, decoded.view());

  for (std::size_t s = 0; s < 3; ++s) {
    INFO("sequence " << s);
    const std::int64_t end = offsets[s + 1] - 1, row = static_cast<std::int64_t>(s);
    const auto width = static_cast<std::size_t>(kShape.q_width());
    CHECK(relative_distance(std::span(decoded.view().row(row), width), std::span(out.view().row(end), width)) <
          kDistanceMax);
    CHECK(keys[s].at(slots[s].tokens - 1, 3) == qkv.at(end, kShape.q_width() + 3));
    CHECK(values[s].at(slots[s].tokens - 1, 3) == qkv.at(end, kShape.q_width() + kv + 3));
  }
}

}  // namespace mrb::test
