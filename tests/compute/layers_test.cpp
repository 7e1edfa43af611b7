// RMSNorm, SwiGLU and the exponential they stand on.
#include "compute/layers.hpp"

#include "compute/cpu/vector_exp.hpp"
#include "compute/matrices.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace mrb::test {

namespace {

constexpr double kSlopeDistanceMax = 1e-3;  // finite differences in f32
constexpr double kEps = 1e-6;

struct Layers {
  std::unique_ptr<ComputeBackend> compute = make_compute("cpu", {});
  LayerOps& ops = compute->operations().layers;
};

}  // namespace

TEST_CASE("vector_exp is exp within 2e-7 wherever the result is a normal number", "[compute]") {
  double worst = 0;
  for (int i = 0; i <= 1'750'000; ++i) {
    const float x = -87.0f + 1e-4f * static_cast<float>(i);
    if (x > 88.0f) break;
    const double expected = std::exp(double{x});
    worst = std::max(worst, std::abs(double{vector_exp(x)} - expected) / expected);
  }
  CHECK(worst < 2e-7);
}

TEST_CASE("vector_exp is exact at 0, stays finite beyond its range, and keeps NaN", "[compute]") {
  CHECK(vector_exp(0.0f) == 1.0f);
  CHECK(vector_exp(-1e30f) < 2e-38f);
  CHECK(vector_exp(-1e30f) > 0.0f);
  CHECK(std::isfinite(vector_exp(1e30f)));
  CHECK(vector_exp(1e30f) > 1e38f);
  CHECK(std::isnan(vector_exp(NAN)));
}

TEST_CASE("rms_norm divides by the root of the mean square", "[compute]") {
  Layers layers;
  Numbers x(2, 4);
  x.values = {1, -7, 5, 5, 0, 0, 0, 0};  // a mean square of (1 + 49 + 25 + 25) / 4 = 25, and of 0
  const float gain[] = {1, 2, 1, -1};
  Numbers y(2, 4);
  float inverse_rms[2];
  layers.ops.rms_norm(x.view(), gain, 0.0625, y.view(), inverse_rms);
  CHECK(inverse_rms[0] == Approx(1 / std::sqrt(25.0625)));
  CHECK(inverse_rms[1] == Approx(4));  // 1 / sqrt(0.0625)
  CHECK(y.at(0, 1) == Approx(-14 / std::sqrt(25.0625)));
  CHECK(y.at(0, 3) == Approx(-5 / std::sqrt(25.0625)));
  CHECK(y.at(1, 0) == 0);
}

TEST_CASE("rms_norm's gradients are the slopes of its output", "[compute]") {
  Layers layers;
  Numbers x = draw(1, 5, 70), gain = draw(2, 1, 70);  // more columns than 64, which the gain's gradient takes at once
  const Numbers dy = draw(3, 5, 70);
  Numbers y(5, 70), inverse_rms(1, 5), dx(5, 70, NAN), dgain(1, 70, 1);
  const auto loss = [&] {
    layers.ops.rms_norm(x.view(), gain.data(), kEps, y.view(), inverse_rms.data());
    return dot(y.values, dy.values);
  };
  loss();
  layers.ops.rms_norm_backward(dy.view(), x.view(), gain.data(), inverse_rms.data(), dx.view(), Store::replace,
                               dgain.data());
  Numbers added(5, 70, 3), ignored(1, 70);
  layers.ops.rms_norm_backward(dy.view(), x.view(), gain.data(), inverse_rms.data(), added.view(), Store::add,
                               ignored.data());
  CHECK(relative_distance(dx.values, slopes(x.values, loss)) < kSlopeDistanceMax);
  for (float& value : dgain.values) value -= 1;  // it is added to what was there
  CHECK(relative_distance(dgain.values, slopes(gain.values, loss)) < kSlopeDistanceMax);
  for (float& value : added.values) value -= 3;
  CHECK(relative_distance(added.values, dx.values) < 1e-5);
}

TEST_CASE("swiglu multiplies silu of the gate, the other half and the row's scale", "[compute]") {
  Layers layers;
  Numbers gate_up(2, 4);
  gate_up.values = {0, 1, 5, 3, -2, 40, 2, 0.5f};
  const float scale[] = {1, 10};
  Numbers y(2, 2);
  layers.ops.swiglu(gate_up.view(), scale, y.view());
  CHECK(y.at(0, 0) == 0);
  CHECK(y.at(0, 1) == Approx(3 / (1 + std::exp(-1.0))));       // silu(1) * 3
  CHECK(y.at(1, 0) == Approx(10 * -4 / (1 + std::exp(2.0))));  // 10 * silu(-2) * 2
  CHECK(y.at(1, 1) == Approx(200));                            // silu(40) is 40
  layers.ops.swiglu(gate_up.view(), nullptr, y.view());
  CHECK(y.at(1, 1) == Approx(20));
}

TEST_CASE("swiglu's gradients are the slopes of its output, with and without a scale", "[compute]") {
  Layers layers;
  Numbers gate_up = draw(1, 7, 2 * 9), scale = draw(2, 1, 7);
  const Numbers dy = draw(3, 7, 9);
  for (float* factors : {scale.data(), static_cast<float*>(nullptr)}) {
    INFO((factors ? "scaled" : "not scaled"));
    Numbers y(7, 9), dgate_up(7, 2 * 9, NAN), dscale(1, 7, NAN);
    const auto loss = [&] {
      layers.ops.swiglu(gate_up.view(), factors, y.view());
      return dot(y.values, dy.values);
    };
    layers.ops.swiglu_backward(dy.view(), gate_up.view(), factors, dgate_up.view(), factors ? dscale.data() : nullptr);
    CHECK(relative_distance(dgate_up.values, slopes(gate_up.values, loss)) < kSlopeDistanceMax);
    if (factors) CHECK(relative_distance(dscale.values, slopes(scale.values, loss)) < kSlopeDistanceMax);
  }
}

TEST_CASE("add adds", "[compute]") {
  Layers layers;
  const Numbers x(3, 5, 2);
  Numbers y(3, 5, 0.5f);
  layers.ops.add(x.view(), y.view());
  CHECK(y.values == std::vector<float>(15, 2.5f));
}

}  // namespace mrb::test
