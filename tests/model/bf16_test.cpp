// Products whose inputs are rounded to bf16 give nearly what f32 gives.
#include "base/error.hpp"
#include "model/policy_rank.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace mrb::test {

namespace {

// bf16 keeps 8 bits: 0.4% at most are lost in each number. Errors of some layers and many terms add up to this.
constexpr double kDistanceMax = 0.03;

bool bf16_works_here() {
  try {
    make_compute("cpu", {.dtype = "bf16"});
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) throw;
    WARN("skipped: " << error.what());
    return false;
  }
}

struct Outcome {
  std::vector<float> log_probs;
  std::vector<std::vector<std::int64_t>> load;
  std::vector<std::pair<std::string, std::vector<float>>> gradients;
};

Outcome run(const std::string& dtype) {
  ModelShape shape = every_part();
  // With every expert chosen no rounding can change the choice, and only the arithmetic is compared.
  shape.top_k = shape.experts;
  SoloPolicy solo(shape, {.dtype = dtype});
  enlarge_weights(solo.policy, 6);
  const Batch batch = batch_of(draw_sequences(2, shape.vocab, {20, 7, 30}));
  Outcome outcome;
  auto tape = solo.policy.forward(batch.packed, batch.scored, 1.0, outcome.log_probs);
  solo.policy.backward(std::move(tape), std::vector<float>(outcome.log_probs.size(), -1.0f), {});
  outcome.load = solo.policy.take_router_load();
  for (const ParameterTensor& tensor : solo.policy.parameters().tensors()) {
    const Matrix gradient = solo.policy.parameters().gradient(tensor);
    outcome.gradients.emplace_back(tensor.name, std::vector<float>(gradient.data, gradient.data + gradient.size()));
  }
  return outcome;
}

}  // namespace

TEST_CASE("bf16 products stay near f32, and are not f32", "[model]") {
  if (!bf16_works_here()) return;
  const Outcome exact = run("f32"), rounded = run("bf16");
  CHECK(rounded.load == exact.load);
  CHECK(relative_distance(rounded.log_probs, exact.log_probs) < kDistanceMax);
  CHECK(relative_distance(rounded.log_probs, exact.log_probs) > 1e-6);
  for (std::size_t i = 0; i < exact.gradients.size(); ++i) {
    INFO(exact.gradients[i].first);
    CHECK(relative_distance(rounded.gradients[i].second, exact.gradients[i].second) < kDistanceMax);
  }
}

}  // namespace mrb::test
