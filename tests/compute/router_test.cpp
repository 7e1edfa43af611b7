// Which experts are chosen, with which weights, and the gradients of both.
#include "compute/router.hpp"

#include "compute/matrices.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace mrb::test {

namespace {

struct Routed {
  Routed(Numbers given, int top_k)
      : logits(std::move(given)),
        probabilities(logits.rows, logits.columns, NAN),
        ids(static_cast<std::size_t>(logits.rows * top_k)),
        weights(logits.rows, top_k, NAN) {
    run();
  }

  void run() {
    compute->operations().router.route(logits.view(), static_cast<int>(weights.columns), probabilities.view(), ids,
                                       weights.view());
  }

  std::vector<float> backward(const Numbers& dweights, std::span<const float> balance) {
    Numbers dlogits(logits.rows, logits.columns, NAN);
    compute->operations().router.route_backward(dweights.view(), probabilities.view(), ids, weights.view(), balance,
                                                dlogits.view());
    return dlogits.values;
  }

  std::unique_ptr<ComputeBackend> compute = make_compute("cpu", {});
  Numbers logits;
  Numbers probabilities;
  std::vector<std::int32_t> ids;
  Numbers weights;
};

Numbers row_of(std::vector<float> values) {
  Numbers row(1, static_cast<std::int64_t>(values.size()));
  row.values = std::move(values);
  return row;
}

}  // namespace

TEST_CASE("probabilities are the softmax of the logits, and gates those chosen divided by their sum", "[compute]") {
  const Routed routed(row_of({1, 0.5f, -0.5f, 0}), 2);
  const double expected[] = {0.455054234, 0.276004345, 0.101536324, 0.167405097};
  for (int e = 0; e < 4; ++e) CHECK(routed.probabilities.at(0, e) == Approx(expected[e]).epsilon(1e-6));
  CHECK(routed.ids == std::vector<std::int32_t>{0, 1});
  // 1 / (1 + e^-0.5)
  CHECK(routed.weights.at(0, 0) == Approx(0.622459331).epsilon(1e-6));
  CHECK(routed.weights.at(0, 1) == Approx(0.377540669).epsilon(1e-6));
}

TEST_CASE("experts are chosen in descending order, the lower one first among equals", "[compute]") {
  CHECK(Routed(row_of({0, 2, 1, 2, 3}), 4).ids == std::vector<std::int32_t>{4, 1, 3, 2});
  CHECK(Routed(row_of({7, 7, 7}), 2).ids == std::vector<std::int32_t>{0, 1});
  CHECK(Routed(row_of({-1, -1}), 2).ids == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("experts that are all but impossible can still be chosen, with a gate of 0", "[compute]") {
  const Routed routed(row_of({200, 0, 0}), 3);
  CHECK(routed.ids == std::vector<std::int32_t>{0, 1, 2});
  CHECK(routed.weights.values == std::vector<float>{1, 0, 0});
}

TEST_CASE("with all experts chosen the gates are the probabilities", "[compute]") {
  const Routed routed(draw(1, 20, 5), 5);
  for (std::int64_t t = 0; t < 20; ++t) {
    for (std::int64_t k = 0; k < 5; ++k) {
      const std::int32_t expert = routed.ids[static_cast<std::size_t>(t * 5 + k)];
      CHECK(routed.weights.at(t, k) == Approx(routed.probabilities.at(t, expert)).epsilon(1e-6));
    }
  }
}

TEST_CASE("the router's gradients are the slopes of gates and balancing loss", "[compute]") {
  Routed routed(draw(8, 9, 6), 3);
  const Numbers dweights = draw(3, 9, 3);
  const auto chosen = routed.ids;
  for (const std::vector<float>& balance : {std::vector<float>{}, {0.3f, -0.1f, 0.5f, 0.2f, 0, 0.7f}}) {
    INFO("balance over " << balance.size() << " experts");
    const auto gradient = routed.backward(dweights, balance);
    const auto expected = slopes(routed.logits.values, [&] {
      routed.run();
      double loss = dot(routed.weights.values, dweights.values);
      for (std::size_t i = 0; i < routed.probabilities.values.size() && !balance.empty(); ++i) {
        loss += double{balance[i % 6]} * double{routed.probabilities.values[i]};
      }
      if (routed.ids != chosen) FAIL("the choice hangs on the step: take another seed");
      return loss;
    });
    routed.run();
    CHECK(relative_distance(gradient, expected) < 1e-3);
  }
}

}  // namespace mrb::test
