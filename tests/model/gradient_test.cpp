// Gradients against finite differences of the loss, tensor by tensor.
#include <cmath>

#include "model/policy_rank.hpp"
#include "support/catch.hpp"

namespace mrb::test {

namespace {

constexpr double kTemperature = 0.9;

// With the tokens of this seed no router is so undecided that the steps taken below change a choice: the loss would
// jump there, and the test says so.
constexpr std::uint64_t kSeed = 17;

// A loss that weighs every log-probability differently, as advantages do.
class Loss {
 public:
  Loss(Policy& policy, Batch batch) : policy_(policy), batch_(std::move(batch)) {
    Random random({3, Random::payload});
    for (std::size_t i = 0; i < batch_.scored.rows.size(); ++i) {
      factors_.push_back(static_cast<float>(random.normal()));
    }
  }

  double value() {
    const auto log_probs = policy_.log_probs(batch_.packed, batch_.scored, kTemperature);
    double sum = 0;
    for (std::size_t i = 0; i < factors_.size(); ++i) sum += double{factors_[i]} * double{log_probs[i]};
    return sum;
  }

  void backward() {
    std::vector<float> log_probs;
    auto tape = policy_.forward(batch_.packed, batch_.scored, kTemperature, log_probs);
    policy_.backward(std::move(tape), factors_, {});
  }

 private:
  Policy& policy_;
  Batch batch_;
  std::vector<float> factors_;
};

// Moves a tensor along a direction, and back.
class Line {
 public:
  Line(Policy& policy, const ParameterTensor& tensor) : policy_(policy), weight_(policy.parameters().weight(tensor)) {
    Random random({4, Random::payload, static_cast<std::uint64_t>(tensor.offset)});
    const float gradient_length = length_of(policy.parameters().gradient(tensor));
    const float* gradient = policy.parameters().gradient(tensor).data;
    start_.assign(weight_.data, weight_.data + weight_.size());
    // Half chance, half the gradient itself: in a direction of chance alone the loss hardly changes.
    const float spread = 1 / std::sqrt(static_cast<float>(weight_.size()));
    for (std::int64_t i = 0; i < weight_.size(); ++i) {
      direction_.push_back(static_cast<float>(random.normal()) * spread + gradient[i] / gradient_length);
    }
  }
  ~Line() { go_to(0); }

  void go_to(float distance) {
    for (std::size_t i = 0; i < start_.size(); ++i) weight_.data[i] = start_[i] + distance * direction_[i];
    policy_.publish_weights();
  }

  double slope(const float* gradient) const {
    double sum = 0;
    for (std::size_t i = 0; i < direction_.size(); ++i) sum += double{gradient[i]} * double{direction_[i]};
    return sum;
  }

 private:
  static float length_of(Matrix m) {
    double squares = 0;
    for (std::int64_t i = 0; i < m.size(); ++i) squares += double{m.data[i]} * double{m.data[i]};
    return static_cast<float>(std::sqrt(squares));
  }

  Policy& policy_;
  Matrix weight_;
  std::vector<float> start_;
  std::vector<float> direction_;
};

void check_every_tensor(const ModelShape& shape) {
  SoloPolicy solo(shape);
  Policy& policy = solo.policy;
  enlarge_weights(policy);
  Loss loss(policy, batch_of(draw_sequences(kSeed, shape.vocab, {6, 2, 4})));
  loss.backward();
  policy.take_router_load();
  loss.value();
  const auto load = policy.take_router_load();

  for (const ParameterTensor& tensor : policy.parameters().tensors()) {
    INFO(tensor.name);
    Line line(policy, tensor);
    // Fourth order in the step: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h. The step is large, because the loss
    // carries the rounding of f32.
    constexpr float kStep = 0.005f;
    const auto at = [&](float distance) {
      line.go_to(distance);
      const double value = loss.value();
      CHECK(policy.take_router_load() == load);
      return value;
    };
    const double slope = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * double{kStep});
    CHECK(line.slope(policy.parameters().gradient(tensor).data) == Approx(slope).epsilon(2e-3));
  }
}

}  // namespace

TEST_CASE("gradients of every tensor are the slopes of the loss", "[model]") {
  check_every_tensor(every_part());
}

TEST_CASE("gradients are the slopes of the loss when the head is the embedding", "[model]") {
  ModelShape shape = every_part();
  shape.tied_head = true;
  shape.kv_heads = shape.heads;
  shape.dense_layers = 0;
  shape.shared_ff = 0;
  shape.layers = 2;
  check_every_tensor(shape);
}

TEST_CASE("backward adds to the gradients that are there", "[model]") {
  SoloPolicy solo(every_part());
  Loss loss(solo.policy, batch_of(draw_sequences(1, every_part().vocab, {5, 3})));
  loss.backward();
  const auto gradients = solo.policy.parameters().gradients();
  const std::vector<float> once(gradients.begin(), gradients.end());
  loss.backward();
  for (std::size_t i = 0; i < once.size(); ++i) {
    if (gradients[i] != Approx(2 * once[i]).epsilon(1e-5).margin(1e-9)) FAIL("element " << i);
  }
}

}  // namespace mrb::test
