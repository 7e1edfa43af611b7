// Worked numbers, computed in double precision from the formulae: two sequences of two and three tokens with
// advantages +1 and -1, clipping to [0.8, 1.28], dual clip 3, KL weight 0.04.
#include "grpo/objective.hpp"

#include <array>
#include <cmath>

#include "support/catch.hpp"

using mrb::cispo_loss;
using mrb::clipped_loss;
using mrb::Clipping;
using mrb::kl_loss;
using mrb::token_weight;
using mrb::test::Approx;

namespace {

constexpr Clipping kClipping{.low = 0.2, .high = 0.28, .dual = 3};

struct WorkedToken {
  double advantage, old_log_prob, new_log_prob, reference_log_prob;
  double loss, k3, dloss, dk3;
};

constexpr std::array<WorkedToken, 5> kTokens = {{
    {1, -1.0, -0.7, -1.1, -1.280000000, 0.070320046, 0, 0.329679954},
    {1, -2.0, -2.1, -1.9, -0.904837418, 0.021402758, -0.904837418, -0.221402758},
    {-1, -0.5, -0.9, -0.6, 0.800000000, 0.049858808, 0, -0.349858808},
    {-1, -1.5, -1.2, -1.4, 1.349858808, 0.018730753, 1.349858808, 0.181269247},
    {-1, -0.7, -0.7, -0.9, 1.0, 0.018730753, 1.0, 0.181269247},
}};

// Losses of the example summed with this aggregation's weights.
double aggregated(const char* aggregation, bool with_kl) {
  double total = 0;
  for (std::size_t i = 0; i < kTokens.size(); ++i) {
    const WorkedToken& token = kTokens[i];
    const double loss = clipped_loss(token.new_log_prob, token.old_log_prob, token.advantage, kClipping).loss +
                        (with_kl ? 0.04 * kl_loss("k3", token.new_log_prob, token.reference_log_prob).loss : 0);
    total += token_weight(aggregation, {.tokens = 5, .sequences = 2}, i < 2 ? 2 : 3, 4) * loss;
  }
  return total;
}

// clipped_loss for ratio r.
mrb::TokenLoss at_ratio(double advantage, double ratio, double dual) {
  return clipped_loss(std::log(ratio), 0, advantage, {.low = 0.2, .high = 0.2, .dual = dual});
}

}  // namespace

TEST_CASE("the worked example, token by token", "[grpo]") {
  for (const WorkedToken& token : kTokens) {
    INFO("new log-probability " << token.new_log_prob);
    const auto loss = clipped_loss(token.new_log_prob, token.old_log_prob, token.advantage, kClipping);
    CHECK(loss.loss == Approx(token.loss).margin(1e-9));
    CHECK(loss.derivative == Approx(token.dloss).margin(1e-9));
    CHECK(loss.clipped == (token.dloss == 0));
    const auto kl = kl_loss("k3", token.new_log_prob, token.reference_log_prob);
    CHECK(kl.loss == Approx(token.k3).margin(1e-9));
    CHECK(kl.derivative == Approx(token.dk3).margin(1e-9));
  }
}

// Columns: policy loss, k3, their sum with weight 0.04.
TEST_CASE("the ways to average the example differ, even in sign", "[grpo]") {
  struct {
    const char* aggregation;
    double policy, sum;
  } rows[] = {{"token_mean", 0.193004278, 0.194436623},
              {"sequence_mean", -0.021232887, -0.019733523},
              {"sequence_sum_mean", 0.482510695, 0.486091557},
              {"constant_length_sum", 0.241255347, 0.243045779},  // for a length_max of 4, as the next
              {"constant_length_mean", 0.120627674, 0.121522889}};
  for (const auto& row : rows) {
    INFO(row.aggregation);
    CHECK(aggregated(row.aggregation, false) == Approx(row.policy).margin(1e-9));
    CHECK(aggregated(row.aggregation, true) == Approx(row.sum).margin(1e-9));
  }
}

TEST_CASE("the dual clip bounds the loss of bad answers only", "[grpo]") {
  struct {
    double advantage, ratio, dual, loss, derivative;
  } cases[] = {{-1, 4, 3, 3, 0}, {-1, 4, 0, 4, 4}, {1, 4, 3, -1.2, 0}, {-1, .5, 3, .8, 0}, {1, .5, 3, -.5, -.5}};
  for (const auto& c : cases) {
    INFO("advantage " << c.advantage << ", ratio " << c.ratio << ", dual " << c.dual);
    const auto loss = at_ratio(c.advantage, c.ratio, c.dual);
    CHECK(loss.loss == Approx(c.loss).margin(1e-9));
    CHECK(loss.derivative == Approx(c.derivative).margin(1e-9));
  }
}

// Logits z, target 1, advantage 0.8; the old log-probability is 0.05 below, the reference's 0.1 above.
TEST_CASE("the example through softmax, down to the logits", "[grpo]") {
  constexpr std::array<double, 4> z = {1, .5, -.5, 0};
  constexpr std::array<double, 4> probabilities = {0.455054234, 0.276004345, 0.101536324, 0.167405097};
  constexpr std::array<double, 4> gradient = {0.384622630, -0.611938297, 0.085820909, 0.141494758};
  const auto log_prob = [](const std::array<double, 4>& logits, std::size_t target) {
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    return logits[target] - std::log(sum);
  };
  const double before = log_prob(z, 1);
  CHECK(before == Approx(-1.287338672).margin(1e-9));
  const auto total = [&](double now) {
    auto loss = clipped_loss(now, before - 0.05, 0.8, {.low = 0.2, .high = 0.2, .dual = 0});
    const auto kl = kl_loss("k3", now, before + 0.1);
    return mrb::TokenLoss{loss.loss + 0.04 * kl.loss, loss.derivative + 0.04 * kl.derivative, loss.clipped};
  };
  CHECK(total(before).loss == Approx(-0.840810040).margin(1e-9));
  CHECK(total(before).derivative == Approx(-0.845223714).margin(1e-9));
  for (std::size_t v = 0; v < 4; ++v) {
    INFO("logit " << v);
    CHECK(std::exp(log_prob(z, v)) == Approx(probabilities[v]).margin(1e-9));
    CHECK(total(before).derivative * ((v == 1 ? 1 : 0) - probabilities[v]) == Approx(gradient[v]).margin(1e-8));
    auto above = z, below = z;
    above[v] += 1e-6;
    below[v] -= 1e-6;
    CHECK((total(log_prob(above, 1)).loss - total(log_prob(below, 1)).loss) / 2e-6 == Approx(gradient[v]).margin(1e-8));
  }
}

// r = 1.5 is held at 1.28, r = 0.5 at 0.8; the gradient is the held ratio's and never zero.
TEST_CASE("cispo takes the clipped ratio for a weight", "[grpo]") {
  struct {
    double advantage, ratio, held;
  } cases[] = {{1, 1.5, 1.28}, {-1, 1.5, 1.28}, {1, 0.5, 0.8}, {-2, 0.5, 0.8}, {0.7, 1.1, 1.1}};
  for (const auto& c : cases) {
    INFO("advantage " << c.advantage << ", ratio " << c.ratio);
    const auto loss = cispo_loss(-0.4, -0.4 - std::log(c.ratio), c.advantage, kClipping);
    CHECK(loss.loss == Approx(c.held * c.advantage * 0.4).margin(1e-12));
    CHECK(loss.derivative == Approx(-c.held * c.advantage).margin(1e-12));
    CHECK(loss.clipped == (c.held != c.ratio));
  }
}

// d = new - reference = 0.3: k1 0.3, k2 0.045, k3 = exp(-0.3) - 0.7.
TEST_CASE("the estimates of the KL divergence", "[grpo]") {
  const auto estimate = [](const char* estimator) { return kl_loss(estimator, -0.7, -1.0); };
  CHECK(estimate("k1").loss == Approx(0.3));
  CHECK(estimate("k1").derivative == 1);
  CHECK(estimate("k2").loss == Approx(0.045));
  CHECK(estimate("k2").derivative == Approx(0.3));
  CHECK(estimate("k3").loss == Approx(std::exp(-0.3) - 0.7));
  CHECK(estimate("k3").derivative == Approx(1 - std::exp(-0.3)));
  CHECK(estimate("k3_plus").loss == estimate("k3").loss);
  CHECK(estimate("k3_plus").derivative == estimate("k2").derivative);
  CHECK_THROWS_WITH(kl_loss("k4", 0, 0), mrb::test::contains("fix: use one of: k1,"));
}

// exp(2.7) - 3.7 = 11.18 and exp(-13) + 12 are above 10.
TEST_CASE("k3 ends at ten, and its gradient there", "[grpo]") {
  for (const double difference : {-2.7, 13.0, -1e4, 1e4}) {
    INFO(difference);
    CHECK(kl_loss("k3", difference, 0).loss == 10);
    CHECK(kl_loss("k3", difference, 0).derivative == 0);
    CHECK(kl_loss("k3_plus", difference, 0).derivative == difference);
  }
  CHECK(kl_loss("k3", -2.5, 0).loss == Approx(std::exp(2.5) - 3.5));
}

// The mean over tokens drawn from the new policy p, of k1 and k3, is the divergence; that of the derivative of
// k2 is its gradient, that of k1's is nothing. Two tokens, p = 0.3 and 0.7, reference 0.6 and 0.4.
TEST_CASE("the means of the estimates are the divergence and its gradient", "[grpo]") {
  const std::array<double, 2> p = {0.3, 0.7}, reference = {0.6, 0.4};
  const double divergence = 0.3 * std::log(0.5) + 0.7 * std::log(1.75);
  // d log p_v / d z_0 for logits z = log p: 1 - p_0 and -p_0.
  const std::array<double, 2> slope = {1 - p[0], -p[0]};
  const double gradient = p[0] * (1 - p[0]) * (std::log(0.5) - std::log(1.75));
  const auto means = [&](const char* estimator) {
    std::array<double, 2> mean = {0, 0};
    for (std::size_t v = 0; v < 2; ++v) {
      const auto kl = kl_loss(estimator, std::log(p[v]), std::log(reference[v]));
      mean[0] += p[v] * kl.loss;
      mean[1] += p[v] * kl.derivative * slope[v];
    }
    return mean;
  };
  CHECK(means("k1")[0] == Approx(divergence));
  CHECK(means("k3")[0] == Approx(divergence));
  CHECK(means("k2")[1] == Approx(gradient));
  CHECK(means("k3_plus")[1] == Approx(gradient));
  CHECK(means("k1")[1] == Approx(0).margin(1e-12));
}

TEST_CASE("the derivatives are those of the losses, by central differences", "[grpo]") {
  constexpr double kStep = 1e-6;
  for (const double advantage : {-1.3, 0.7}) {
    for (double difference = -1.05; difference < 1.1; difference += 0.1) {
      INFO("advantage " << advantage << ", difference " << difference);
      const auto loss = [&](double d) { return clipped_loss(d, 0, advantage, kClipping).loss; };
      CHECK(clipped_loss(difference, 0, advantage, kClipping).derivative ==
            Approx((loss(difference + kStep) - loss(difference - kStep)) / (2 * kStep)).margin(1e-8));
      for (const char* estimator : {"k1", "k2", "k3"}) {
        INFO(estimator);
        const auto kl = [&](double d) { return kl_loss(estimator, d, 0).loss; };
        CHECK(kl_loss(estimator, difference, 0).derivative ==
              Approx((kl(difference + kStep) - kl(difference - kStep)) / (2 * kStep)).margin(1e-8));
      }
    }
  }
}

TEST_CASE("log-probabilities that are worlds apart give finite losses", "[grpo]") {
  CHECK(std::isfinite(clipped_loss(0, -1e4, -1, {.low = 0.2, .high = 0.2, .dual = 0}).loss));
  CHECK(clipped_loss(0, -1e4, -1, {.low = 0.2, .high = 0.2, .dual = 0}).loss == Approx(std::exp(20.0)));
  CHECK(std::isfinite(kl_loss("k3", -1e4, 0).loss));
}

TEST_CASE("weights of a batch's tokens add up to one, however it is cut up", "[grpo]") {
  const int lengths[] = {3, 1, 7, 5};
  for (const char* aggregation : {"token_mean", "sequence_mean"}) {
    double total = 0;
    for (const int length : lengths) {
      total += length * token_weight(aggregation, {.tokens = 16, .sequences = 4}, length, 8);
    }
    CHECK(total == Approx(1).margin(1e-12));
  }
  CHECK_THROWS_WITH(token_weight("mean", {1, 1}, 1, 1), mrb::test::contains("fix: use one of: token_mean"));
}
