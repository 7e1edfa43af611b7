// Worked numbers, computed in double precision from the formulae: two sequences of two and three tokens with
// advantages +1 and -1, clipping to [0.8, 1.28], dual clip 3, KL weight 0.04.
#include "grpo/objective.hpp"

#include <array>
#include <cmath>

#include "support/catch.hpp"

using mrb::clipped_loss;
using mrb::Clipping;
using mrb::k3_loss;
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
                        (with_kl ? 0.04 * k3_loss(token.new_log_prob, token.reference_log_prob).loss : 0);
    total += token_weight(aggregation, 5, 2, i < 2 ? 2 : 3) * loss;
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
    const auto kl = k3_loss(token.new_log_prob, token.reference_log_prob);
    CHECK(kl.loss == Approx(token.k3).margin(1e-9));
    CHECK(kl.derivative == Approx(token.dk3).margin(1e-9));
  }
}

TEST_CASE("the two ways to average the example differ in sign", "[grpo]") {
  CHECK(aggregated("token_mean", false) == Approx(0.193004278).margin(1e-9));
  CHECK(aggregated("token_mean", true) == Approx(0.194436623).margin(1e-9));
  CHECK(aggregated("sequence_mean", false) == Approx(-0.021232887).margin(1e-9));
  CHECK(aggregated("sequence_mean", true) == Approx(-0.019733523).margin(1e-9));
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

// z = [1, .5, -.5, 0], target 1: log p = -1.287338672; old 0.05 below, reference 0.1 above, advantage 0.8.
TEST_CASE("the coefficient of the example through softmax", "[grpo]") {
  const double log_prob = -1.287338672;
  const Clipping clipping{.low = 0.2, .high = 0.2, .dual = 0};
  const auto loss = clipped_loss(log_prob, log_prob - 0.05, 0.8, clipping);
  const auto kl = k3_loss(log_prob, log_prob + 0.1);
  CHECK(loss.loss + 0.04 * kl.loss == Approx(-0.840810040).margin(1e-9));
  CHECK(loss.derivative + 0.04 * kl.derivative == Approx(-0.845223714).margin(1e-9));
}

TEST_CASE("the derivatives are those of the losses, by central differences", "[grpo]") {
  constexpr double kStep = 1e-6;
  for (const double advantage : {-1.3, 0.7}) {
    for (double difference = -1.05; difference < 1.1; difference += 0.1) {
      INFO("advantage " << advantage << ", difference " << difference);
      const auto loss = [&](double d) { return clipped_loss(d, 0, advantage, kClipping).loss; };
      CHECK(clipped_loss(difference, 0, advantage, kClipping).derivative ==
            Approx((loss(difference + kStep) - loss(difference - kStep)) / (2 * kStep)).margin(1e-8));
      const auto kl = [&](double d) { return k3_loss(d, 0).loss; };
      CHECK(k3_loss(difference, 0).derivative ==
            Approx((kl(difference + kStep) - kl(difference - kStep)) / (2 * kStep)).margin(1e-8));
    }
  }
}

TEST_CASE("log-probabilities that are worlds apart give finite losses", "[grpo]") {
  CHECK(std::isfinite(clipped_loss(0, -1e4, -1, {.low = 0.2, .high = 0.2, .dual = 0}).loss));
  CHECK(clipped_loss(0, -1e4, -1, {.low = 0.2, .high = 0.2, .dual = 0}).loss == Approx(std::exp(20.0)));
  CHECK(std::isfinite(k3_loss(-1e4, 0).loss));
}

TEST_CASE("weights of a batch's tokens add up to one, however it is cut up", "[grpo]") {
  const int lengths[] = {3, 1, 7, 5};
  for (const char* aggregation : {"token_mean", "sequence_mean"}) {
    double total = 0;
    for (const int length : lengths) total += length * token_weight(aggregation, 16, 4, length);
    CHECK(total == Approx(1).margin(1e-12));
  }
  CHECK_THROWS_WITH(token_weight("mean", 1, 1, 1), mrb::test::contains("fix: use one of: token_mean"));
}
