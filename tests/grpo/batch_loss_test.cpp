// Every variant against its formula, written out here once more for a whole batch, and its derivatives against central
// differences of that formula.
#include "grpo/batch_loss.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::Approx;

namespace {

using Numbers = std::vector<double>;

// Answers of 3, 1, 6, 2, 5 and 4 tokens whose log-probabilities differ between policies by up to 0.6 either way.
std::vector<Trajectory> made_up_answers() {
  std::vector<Trajectory> answers;
  Random random({20, 3});
  const auto near = [&](float value) { return value + static_cast<float>(1.2 * random.uniform() - 0.6); };
  for (const int length : {3, 1, 6, 2, 5, 4}) {
    Trajectory& answer = answers.emplace_back();
    answer.prompt = {1, 2};
    answer.advantage = 3 * random.uniform() - 1.5;
    for (int i = 0; i < length; ++i) {
      answer.answer.push_back(3);
      answer.old_log_probs.push_back(-1 - static_cast<float>(random.uniform()));
      answer.rollout_log_probs.push_back(near(answer.old_log_probs.back()));
      answer.reference_log_probs.push_back(near(answer.old_log_probs.back()));
    }
  }
  return answers;
}

// By token, answer after answer.
Numbers made_up_new_log_probs(const std::vector<Trajectory>& answers) {
  Numbers values;
  Random random({20, 4});
  for (const Trajectory& answer : answers) {
    for (const float old : answer.old_log_probs) values.push_back(old + 0.8 * random.uniform() - 0.4);
  }
  return values;
}

// What batch_loss gives, in micro-batches of up to `tokens_max` tokens.
BatchLoss in_parts(const GrpoConfig& grpo, const std::vector<Trajectory>& answers, const Numbers& news,
                   int tokens_max) {
  std::vector<const Trajectory*> all;
  for (const Trajectory& answer : answers) all.push_back(&answer);
  const BatchSize whole{.tokens = static_cast<std::int64_t>(news.size()),
                        .sequences = static_cast<std::int64_t>(answers.size())};
  BatchLoss sum;
  for (const MicroBatch& batch : pack(all, tokens_max)) {
    const auto part =
        batch_loss(grpo, batch, std::span(news).subspan(sum.derivatives.size(), batch.scored.targets.size()), whole);
    sum.loss += part.loss;
    sum.kl += part.kl;
    sum.clipped_tokens += part.clipped_tokens;
    sum.derivatives.insert(sum.derivatives.end(), part.derivatives.begin(), part.derivatives.end());
  }
  return sum;
}

double square(double x) {
  return x * x;
}

// The scalar whose derivative by `news` the variant takes, at the point `at`: what the variant treats as a constant is
// evaluated at `at`.
double formula(const GrpoConfig& grpo, const std::vector<Trajectory>& answers, const Numbers& news, const Numbers& at) {
  double batch_sum = 0;
  std::size_t next = 0;
  for (const Trajectory& answer : answers) {
    const std::size_t first = next, count = answer.answer.size();
    next += count;
    double new_mean = 0, mu_sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      new_mean += (news[first + i] - answer.old_log_probs[i]) / static_cast<double>(count);
      mu_sum += double{answer.old_log_probs[i]} - answer.rollout_log_probs[i];
    }
    double answer_sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double now = news[first + i], then = at[first + i], old = answer.old_log_probs[i];
      const double A = answer.advantage;
      const double r = std::exp(grpo.objective == "gspo" ? new_mean : now - old);
      const auto clip = [&](double ratio) { return std::clamp(ratio, 1 - grpo.clip_low, 1 + grpo.clip_high); };
      double policy = std::max(-r * A, -clip(r) * A);
      if (grpo.objective == "clip" && grpo.dual_clip > 0 && A < 0) policy = std::min(policy, -grpo.dual_clip * A);
      if (grpo.objective == "cispo") policy = -clip(std::exp(then - old)) * A * now;

      const std::string& correction = grpo.correction;
      double rho = std::exp(double{answer.old_log_probs[i]} - answer.rollout_log_probs[i]);
      if (correction.ends_with("sequence")) rho = std::exp(mu_sum);
      if (correction.ends_with("geometric")) rho = std::exp(mu_sum / static_cast<double>(count));
      if (correction == "none") rho = 1;
      if (correction.starts_with("truncate")) rho = std::min(rho, grpo.correction_high);
      if (correction.starts_with("mask") && (rho < grpo.correction_low || rho > grpo.correction_high)) rho = 0;

      const double reference = answer.reference_log_probs[i];
      double kl = std::exp(reference - now) - (reference - now) - 1;
      if (grpo.kl_estimator == "k1") kl = now - reference;
      if (grpo.kl_estimator == "k2") kl = square(now - reference) / 2;
      if (grpo.kl_estimator == "k3_plus") {
        kl = std::exp(reference - then) - (reference - then) - 1 +
             (square(now - reference) - square(then - reference)) / 2;
      }
      answer_sum += rho * policy + grpo.kl_coef * kl;
    }
    batch_sum += grpo.aggregation == "sequence_mean" ? answer_sum / static_cast<double>(count) : answer_sum;
  }
  const auto tokens = static_cast<double>(news.size()), sequences = static_cast<double>(answers.size());
  if (grpo.aggregation == "token_mean") return batch_sum / tokens;
  if (grpo.aggregation == "constant_length_sum") return batch_sum / grpo.response_tokens_max;
  if (grpo.aggregation == "constant_length_mean") return batch_sum / (sequences * grpo.response_tokens_max);
  return batch_sum / sequences;
}

// Every objective with every estimator, aggregation and correction that fits it.
std::vector<GrpoConfig> all_variants() {
  std::vector<GrpoConfig> variants;
  for (const char* objective : {"clip", "gspo", "cispo"}) {
    for (const char* estimator : {"", "k1", "k2", "k3", "k3_plus"}) {
      for (const char* aggregation :
           {"token_mean", "sequence_mean", "sequence_sum_mean", "constant_length_sum", "constant_length_mean"}) {
        for (const std::string correction : {"none", "truncate_token", "truncate_sequence", "truncate_geometric",
                                             "mask_token", "mask_sequence", "mask_geometric", "decoupled"}) {
          GrpoConfig grpo;
          grpo.objective = objective;
          grpo.dual_clip = 1.3;
          grpo.kl_coef = *estimator == 0 ? 0 : 0.3;
          grpo.kl_estimator = estimator;
          grpo.aggregation = aggregation;
          grpo.correction = correction;
          grpo.correction_low = 0.8;
          grpo.correction_high = 1.4;
          const bool by_token = correction.ends_with("token") || correction == "decoupled";
          if (grpo.objective != "gspo" || !by_token) variants.push_back(grpo);
        }
      }
    }
  }
  return variants;
}

std::string name_of(const GrpoConfig& grpo) {
  return grpo.objective + " " + grpo.kl_estimator + " " + grpo.aggregation + " " + grpo.correction;
}

}  // namespace

TEST_CASE("every variant is its formula, and its derivatives are those of the formula", "[grpo]") {
  const auto answers = made_up_answers();
  const Numbers news = made_up_new_log_probs(answers);
  for (const GrpoConfig& grpo : all_variants()) {
    INFO(name_of(grpo));
    const BatchLoss result = in_parts(grpo, answers, news, 1000);
    CHECK(result.loss == Approx(formula(grpo, answers, news, news)).epsilon(1e-12));
    REQUIRE(result.derivatives.size() == news.size());
    if (grpo.objective != "gspo") CHECK((result.clipped_tokens > 0 && result.clipped_tokens < 21));
    constexpr double kStep = 1e-6;
    double largest_error = 0;
    for (std::size_t i = 0; i < news.size(); ++i) {
      Numbers above = news, below = news;
      above[i] += kStep;
      below[i] -= kStep;
      const double slope = (formula(grpo, answers, above, news) - formula(grpo, answers, below, news)) / (2 * kStep);
      largest_error = std::max(largest_error, std::abs(result.derivatives[i] - slope));
    }
    CHECK(largest_error < 2e-8);
  }
}

TEST_CASE("one micro-batch is as good as any number of them", "[grpo]") {
  const auto answers = made_up_answers();
  const Numbers news = made_up_new_log_probs(answers);
  for (const GrpoConfig& grpo : all_variants()) {
    INFO(name_of(grpo));
    const BatchLoss whole = in_parts(grpo, answers, news, 1000);
    for (const int tokens_max : {1, 9}) {
      const BatchLoss parts = in_parts(grpo, answers, news, tokens_max);
      CHECK(parts.loss == Approx(whole.loss).margin(1e-12));
      CHECK(parts.kl == Approx(whole.kl).margin(1e-12));
      CHECK(parts.clipped_tokens == whole.clipped_tokens);
      CHECK(parts.derivatives == whole.derivatives);
    }
  }
}

// Two answers of mean ratios 1.105170918 and 0.967216100, within the bounds of 0.2: the derivative of the first one's
// two tokens is -s / 2 of the answer's loss, and a half of that in the mean of two answers.
TEST_CASE("gspo of the worked example", "[grpo]") {
  Trajectory good{.prompt = {1}, .answer = {2, 2}}, bad{.prompt = {1}, .answer = {2, 2, 2}};
  good.advantage = 1;
  good.old_log_probs = {-1, -2};
  good.rollout_log_probs = good.old_log_probs;
  bad.advantage = -1;
  bad.old_log_probs = {-.5f, -1.5f, -.7f};
  bad.rollout_log_probs = bad.old_log_probs;
  GrpoConfig grpo;
  grpo.objective = "gspo";
  grpo.aggregation = "sequence_mean";
  grpo.clip_high = 0.2;
  const Numbers news = {-.7, -2.1, -.9, -1.2, -.7};
  CHECK(in_parts(grpo, {good}, {-.7, -2.1}, 100).loss == Approx(-1.105170918).margin(1e-7));
  CHECK(in_parts(grpo, {bad}, {-.9, -1.2, -.7}, 100).loss == Approx(0.967216100).margin(1e-7));
  const BatchLoss both = in_parts(grpo, {good, bad}, news, 100);
  CHECK(both.loss == Approx((-1.105170918 + 0.967216100) / 2).margin(1e-7));
  CHECK(both.derivatives[0] == Approx(-1.105170918 / 4).margin(1e-7));
  CHECK(both.derivatives[4] == Approx(0.967216100 / 6).margin(1e-7));
}

// mu -1, proximal -0.8, new -0.7: 1.221402758 * 1.105170918, while a ratio to mu would be clipped to 1.2.
TEST_CASE("decoupled PPO clips against the trainer's old policy and weighs by the rollout's", "[grpo]") {
  Trajectory answer{.prompt = {1}, .answer = {2}};
  answer.advantage = 1;
  answer.old_log_probs = {-.8f};
  answer.rollout_log_probs = {-1};
  GrpoConfig grpo;
  grpo.clip_high = 0.2;
  grpo.correction = "decoupled";
  CHECK(in_parts(grpo, {answer}, {-.7}, 100).loss == Approx(-1.349858808).margin(1e-6));
  answer.old_log_probs = answer.rollout_log_probs;
  CHECK(in_parts(grpo, {answer}, {-.7}, 100).loss == Approx(-1.2).margin(1e-6));
}

// Two answers of one token with r = 1; the second one's ratio of exp(1) is masked, and the first keeps its half.
TEST_CASE("what a mask drops stays in the denominator", "[grpo]") {
  Trajectory kept{.prompt = {1}, .answer = {2}};
  kept.advantage = 1;
  kept.old_log_probs = kept.rollout_log_probs = {-1};
  Trajectory dropped = kept;
  dropped.rollout_log_probs = {-2};
  for (const char* correction : {"mask_token", "mask_sequence"}) {
    for (const char* aggregation : {"token_mean", "sequence_mean"}) {
      GrpoConfig grpo;
      grpo.correction = correction;
      grpo.aggregation = aggregation;
      const BatchLoss result = in_parts(grpo, {kept, dropped}, {-1, -1}, 100);
      CHECK(result.loss == Approx(-0.5));
      CHECK(result.derivatives == Numbers{-0.5, 0});
    }
  }
}

TEST_CASE("an objective nobody knows lists those there are", "[grpo]") {
  GrpoConfig grpo;
  grpo.objective = "clap";
  const auto answers = made_up_answers();
  CHECK_THROWS_WITH(in_parts(grpo, answers, made_up_new_log_probs(answers), 100),
                    mrb::test::contains("fix: use one of: clip, gspo, cispo"));
}
