// AdamW against steps worked out by hand, and the norm that clips.
#include "compute/optimizer.hpp"

#include "compute/matrices.hpp"
#include "support/catch.hpp"

namespace mrb::test {

namespace {

struct Optimizer {
  std::unique_ptr<ComputeBackend> compute = make_compute("cpu", {});
  OptimizerOps& ops = compute->operations().optimizer;
};

constexpr AdamWStep kStep{
    .learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.5, .step = 1};

}  // namespace

TEST_CASE("two steps of AdamW are those worked out by hand", "[compute]") {
  Optimizer optimizer;
  float weight[] = {2}, m[] = {0}, v[] = {0}, gradient[] = {4};
  AdamWStep step = kStep;
  optimizer.ops.adamw(step, weight, gradient, m, v);
  // m = 0.1 * 4 and v = 0.01 * 16, corrected to 4 and 16: the first step is of the learning rate.
  // w = 2 (1 - 0.1 * 0.5) - 0.1 * 4 / 4 = 1.8
  CHECK(m[0] == Approx(0.4));
  CHECK(v[0] == Approx(0.16));
  CHECK(weight[0] == Approx(1.8).epsilon(1e-6));

  step.step = 2;
  gradient[0] = -1;
  optimizer.ops.adamw(step, weight, gradient, m, v);
  // m = 0.9 * 0.4 - 0.1 = 0.26, corrected 0.26 / 0.19 = 1.368421053
  // v = 0.99 * 0.16 + 0.01 = 0.1684, corrected 0.1684 / 0.0199 = 8.462311558, its root 2.908988
  // w = 1.8 * 0.95 - 0.1 * 1.368421053 / 2.908988 = 1.71 - 0.047041141 = 1.662958859
  CHECK(m[0] == Approx(0.26));
  CHECK(v[0] == Approx(0.1684));
  CHECK(weight[0] == Approx(1.662958859).epsilon(1e-6));
}

TEST_CASE("clipping scales gradients before the moments see them, and decay not at all", "[compute]") {
  Optimizer optimizer;
  float weight[] = {2}, m[] = {0}, v[] = {0};
  const float gradient[] = {40};
  AdamWStep step = kStep;
  step.gradient_scale = 0.1;
  optimizer.ops.adamw(step, weight, gradient, m, v);
  CHECK(m[0] == Approx(0.4));
  CHECK(v[0] == Approx(0.16));
  CHECK(weight[0] == Approx(1.8).epsilon(1e-6));
}

TEST_CASE("eps is added to the corrected root", "[compute]") {
  Optimizer optimizer;
  float weight[] = {0}, m[] = {0}, v[] = {0};
  const float gradient[] = {4};
  AdamWStep step = kStep;
  step.eps = 4;
  optimizer.ops.adamw(step, weight, gradient, m, v);
  CHECK(weight[0] == Approx(-0.1 * 4 / (4 + 4)).epsilon(1e-6));
}

TEST_CASE("a weight without a gradient only decays", "[compute]") {
  Optimizer optimizer;
  float weight[] = {2}, m[] = {0}, v[] = {0};
  const float gradient[] = {0};
  optimizer.ops.adamw(kStep, weight, gradient, m, v);
  CHECK(weight[0] == Approx(1.9));
}

TEST_CASE("every element is updated, in any number of chunks", "[compute]") {
  Optimizer optimizer;
  const std::size_t count = 16384 * 2 + 5;
  std::vector<float> weights(count, 2), m(count, 0), v(count, 0);
  const std::vector<float> gradients(count, 4);
  optimizer.ops.adamw(kStep, weights, gradients, m, v);
  for (const float weight : weights) {
    if (weight != weights[0]) FAIL("elements differ");
  }
  CHECK(weights[0] == Approx(1.8).epsilon(1e-6));
}

TEST_CASE("the sum of squares is f64, so that small ones count beside large ones", "[compute]") {
  Optimizer optimizer;
  std::vector<float> values(100'001, 1e-3f);
  values[0] = 1e4f;  // in f32, 1e8 + 1e-6 is 1e8
  const double small = double{1e-3f} * double{1e-3f};
  // Next to 1e8, f64 has steps of 1.5e-8: some of the small ones lose up to 0.7% of themselves.
  CHECK(optimizer.ops.sum_of_squares(values) - 1e8 == Approx(100'000 * small).epsilon(1e-3));
  CHECK(optimizer.ops.sum_of_squares({}) == 0);
}

}  // namespace mrb::test
