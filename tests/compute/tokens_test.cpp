// Embedding, log-probabilities and sampling.
#include "compute/tokens.hpp"

#include <array>

#include "compute/matrices.hpp"
#include "support/catch.hpp"
#include "support/numbers.hpp"

namespace mrb::test {

namespace {

struct Tokens {
  std::unique_ptr<ComputeBackend> compute = make_compute("cpu", {});
  TokenOps& ops = compute->operations().tokens;
};

Numbers example() {
  Numbers logits(1, 4);
  logits.values = {1, 0.5f, -0.5f, 0};
  return logits;
}

struct Draw {
  std::int32_t id = -1;
  float log_prob = 0;
};

Draw sample(const Numbers& logits, double uniform, double temperature = 1, std::int32_t excluded = kNoToken) {
  Tokens tokens;
  Draw drawn;
  tokens.ops.sample(logits.view(), temperature, excluded, std::span(&uniform, 1), std::span(&drawn.id, 1),
                    std::span(&drawn.log_prob, 1));
  return drawn;
}

}  // namespace

TEST_CASE("embedding copies rows of the table, and gradients add up where a token comes twice", "[compute]") {
  Tokens tokens;
  Numbers table(3, 2);
  table.values = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int32_t> ids = {2, 0, 2};
  Numbers y(3, 2);
  tokens.ops.embed(table.view(), ids, y.view());
  CHECK(y.values == std::vector<float>{5, 6, 1, 2, 5, 6});
  Numbers dtable(3, 2, 100);
  tokens.ops.embed_backward(y.view(), ids, dtable.view());
  CHECK(dtable.values == std::vector<float>{101, 102, 100, 100, 110, 112});
}

TEST_CASE("log-probabilities of the worked example", "[compute]") {
  Tokens tokens;
  const std::vector<std::int32_t> target = {1};
  float log_prob, log_sum;
  tokens.ops.log_prob(example().view(), 1, target, std::span(&log_prob, 1), std::span(&log_sum, 1));
  CHECK(log_prob == Approx(-1.287338672).epsilon(1e-6));
  CHECK(log_sum == Approx(0.5 + 1.287338672).epsilon(1e-6));
}

TEST_CASE("a temperature divides the logits", "[compute]") {
  Tokens tokens;
  Numbers logits(1, 2);
  logits.values = {1, 0};
  const std::vector<std::int32_t> target = {0};
  float log_prob, log_sum;
  tokens.ops.log_prob(logits.view(), 0.5, target, std::span(&log_prob, 1), std::span(&log_sum, 1));
  CHECK(log_prob == Approx(-std::log1p(std::exp(-2.0))).epsilon(1e-6));
}

TEST_CASE("logits far from zero lose nothing", "[compute]") {
  Tokens tokens;
  Numbers logits(2, 3);
  logits.values = {1e4f, 1e4f - 1, -1e4f, -1e4f, -1e4f, -1e4f};
  const std::vector<std::int32_t> targets = {1, 0};
  std::array<float, 2> log_probs, log_sum;
  tokens.ops.log_prob(logits.view(), 1, targets, log_probs, log_sum);
  CHECK(log_probs[0] == Approx(-1 - std::log1p(std::exp(-1.0))).epsilon(1e-3));
  CHECK(log_probs[1] == Approx(-std::log(3.0)).epsilon(1e-3));
}

TEST_CASE("the gradient through the softmax is the factor times what the target lacks", "[compute]") {
  Tokens tokens;
  Numbers logits = example();
  const std::vector<std::int32_t> target = {1};
  float log_prob, log_sum;
  tokens.ops.log_prob(logits.view(), 1, target, std::span(&log_prob, 1), std::span(&log_sum, 1));
  const float factor = 2;
  tokens.ops.log_prob_backward(logits.view(), 1, target, std::span(&log_sum, 1), std::span(&factor, 1));
  // 2 ([v = 1] - p_v), with p of the example.
  const double expected[] = {-0.910108468, 1.447991310, -0.203072648, -0.334810194};
  for (int v = 0; v < 4; ++v) CHECK(logits.at(0, v) == Approx(expected[v]).epsilon(1e-6));
}

TEST_CASE("gradients of log-probabilities are their slopes, at any temperature", "[compute]") {
  Tokens tokens;
  Numbers logits = draw(1, 3, 17);
  const std::vector<std::int32_t> targets = {0, 16, 5};
  const std::vector<float> factors = {1.5f, -0.5f, 0.7f};
  const double temperature = 0.6;
  std::vector<float> log_probs(3), log_sum(3);
  const auto loss = [&] {
    tokens.ops.log_prob(logits.view(), temperature, targets, log_probs, log_sum);
    return dot(log_probs, factors);
  };
  loss();
  Numbers gradient = logits;
  tokens.ops.log_prob_backward(gradient.view(), temperature, targets, log_sum, factors);
  CHECK(relative_distance(gradient.values, slopes(logits.values, loss)) < 1e-3);
}

TEST_CASE("sampling inverts the cumulative sum", "[compute]") {
  // Sums after each token of the example: 0.455054, 0.731059, 0.832595, 1.
  CHECK(sample(example(), 0.0).id == 0);
  CHECK(sample(example(), 0.4550).id == 0);
  CHECK(sample(example(), 0.4551).id == 1);
  CHECK(sample(example(), 0.7310).id == 1);
  CHECK(sample(example(), 0.7311).id == 2);
  CHECK(sample(example(), 0.8325).id == 2);
  CHECK(sample(example(), 0.8327).id == 3);
  CHECK(sample(example(), 0.999999999).id == 3);
  CHECK(sample(example(), 0.5).log_prob == Approx(-1.287338672).epsilon(1e-6));
}

TEST_CASE("a temperature sharpens sampling", "[compute]") {
  Numbers logits(1, 2);
  logits.values = {1, 0};
  // p(0) = 1 / (1 + e^-1) = 0.731059 at a temperature of 1, 1 / (1 + e^-4) = 0.982014 at 0.25.
  CHECK(sample(logits, 0.9, 1).id == 1);
  CHECK(sample(logits, 0.9, 0.25).id == 0);
  CHECK(sample(logits, 0.9, 0.25).log_prob == Approx(std::log(0.982013790)).epsilon(1e-6));
}

TEST_CASE("an impossible token is never drawn, first, last or between", "[compute]") {
  Numbers logits(1, 5);
  logits.values = {-1e30f, 0, -1e30f, 0, -1e30f};
  CHECK(sample(logits, 0.0).id == 1);
  CHECK(sample(logits, 0.4999).id == 1);
  CHECK(sample(logits, 0.5001).id == 3);
  CHECK(sample(logits, std::nextafter(1.0, 0.0)).id == 3);
  CHECK(sample(logits, 0.0).log_prob == Approx(-std::log(2.0)).epsilon(1e-6));
}

// Without token 0 the others of the example have 0.276004 0.101536 0.167405 of 0.544946: sums 0.506480 0.692804 1.
TEST_CASE("an excluded token is never drawn, and the others keep their proportions and log-probabilities",
          "[compute]") {
  const auto without = [](std::int32_t excluded, double uniform) { return sample(example(), uniform, 1, excluded); };
  CHECK(without(0, 0.0).id == 1);
  CHECK(without(0, 0.50647).id == 1);
  CHECK(without(0, 0.50649).id == 2);
  CHECK(without(0, 0.69279).id == 2);
  CHECK(without(0, 0.69281).id == 3);
  CHECK(without(0, std::nextafter(1.0, 0.0)).id == 3);
  CHECK(without(0, 0.5).log_prob == Approx(-1.287338672).epsilon(1e-6));
  // Without 2: 0.455054 0.276004 0.167405 of 0.898464. Without 3: 0.455054 0.276004 0.101536 of 0.832595.
  CHECK(without(2, 0.81367).id == 1);
  CHECK(without(2, 0.81369).id == 3);
  CHECK(without(3, 0.87804).id == 1);
  CHECK(without(3, 0.87806).id == 2);
  CHECK(without(3, std::nextafter(1.0, 0.0)).id == 2);
}

TEST_CASE("an excluded token is not drawn even where it has all probability", "[compute]") {
  Numbers logits(1, 3);
  logits.values = {1e4f, 1, 1};
  CHECK(sample(logits, 0.25, 1, 0).id == 1);
  CHECK(sample(logits, 0.75, 1, 0).id == 2);
  CHECK(sample(logits, 0.75, 1, 0).log_prob == Approx(1 - 1e4));
}

TEST_CASE("sampled tokens come as often as they are probable", "[compute]") {
  Tokens tokens;
  constexpr std::int64_t kDraws = 20'000;
  Numbers logits(kDraws, 4);
  for (std::int64_t t = 0; t < kDraws; ++t) std::copy_n(example().data(), 4, logits.view().row(t));
  std::vector<double> uniforms;
  Random random({1, Random::sampling});
  for (std::int64_t t = 0; t < kDraws; ++t) uniforms.push_back(random.uniform());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(kDraws));
  std::vector<float> log_probs(ids.size());
  tokens.ops.sample(logits.view(), 1, kNoToken, uniforms, ids, log_probs);
  const double expected[] = {0.455054234, 0.276004345, 0.101536324, 0.167405097};
  for (std::int32_t v = 0; v < 4; ++v) {
    const auto count = static_cast<double>(std::count(ids.begin(), ids.end(), v));
    const double deviation = std::sqrt(kDraws * expected[v] * (1 - expected[v]));
    CHECK(std::abs(count - kDraws * expected[v]) < 4 * deviation);
  }
}

}  // namespace mrb::test
