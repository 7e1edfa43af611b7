#include "grpo/trainer.hpp"

#include <cmath>

#include "grpo/lengths.hpp"
#include "support/catch.hpp"
#include "support/fake_clock.hpp"
#include "support/train.hpp"

using namespace mrb;
using mrb::test::Approx;
using mrb::test::train;

namespace {

// A model and a batch that take a few milliseconds a step.
Config small_config() {
  Config config;
  config.model.hidden = 32;
  config.model.heads = 2;
  config.model.kv_heads = 1;
  config.model.head_dim = 16;
  config.model.expert_ff = 32;
  config.grpo.prompts = 4;
  config.grpo.group_size = 4;
  return config;
}

void check_same_curve(const std::vector<StepResult>& a, const std::vector<StepResult>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t step = 0; step < a.size(); ++step) {
    INFO("step " << step);
    CHECK(a[step].token_checksum == b[step].token_checksum);
    CHECK(a[step].loss == Approx(b[step].loss).epsilon(1e-4).margin(1e-6));
    CHECK(a[step].reward_mean == Approx(b[step].reward_mean).epsilon(1e-4));
    CHECK(a[step].log_prob_mean == Approx(b[step].log_prob_mean).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("any number of ranks and any dispatcher does the same work and gets the same curve", "[grpo]") {
  const Config config = small_config();
  const auto expected = train(config, 1, "reference", 10)[0];
  for (const int ranks : {1, 2, 4, 8}) {
    for (const char* dispatcher : {"alltoall", "rank_dedup"}) {
      INFO(ranks << " ranks, " << dispatcher);
      const auto results = train(config, ranks, dispatcher, 10);
      for (const auto& rank : results) check_same_curve(rank, expected);
    }
  }
}

TEST_CASE("the policy learns the task", "[grpo]") {
  Config config;
  config.grpo.prompts = 32;
  config.grpo.minibatches = 4;
  config.grpo.prompt_tokens = 3;
  config.grpo.response_tokens_min = 2;
  config.grpo.response_tokens_max = 4;
  config.model.hidden = 64;
  config.model.expert_ff = 64;
  const auto steps = train(config, 1, "alltoall", 25)[0];
  INFO("reward from " << steps.front().reward_mean << " to " << steps.back().reward_mean);
  CHECK(steps.front().reward_mean < 0.35);  // a guess gets a quarter
  CHECK(steps.back().reward_mean > 0.8);
}

TEST_CASE("a step says what it did", "[grpo]") {
  Config config = small_config();
  config.grpo.epochs = 2;
  const auto step = train(config, 2, "alltoall", 1)[0][0];
  CHECK(step.prompt_tokens == 4 * 8);
  CHECK(step.response_tokens >= 16);
  CHECK(step.response_tokens <= 16 * 8);
  CHECK(step.trained_tokens == 2 * step.response_tokens);
  CHECK(step.log_prob_mean == Approx(std::log(1.0 / 64)).epsilon(0.05));  // an untrained policy is nearly even
  CHECK(step.log_prob_gap < 1e-5);  // rollout and trainer agree on what was sampled
  CHECK(step.gradient_norm > 0);
  CHECK(step.kl_mean == 0);
}

TEST_CASE("the parts of a micro-batch make no difference", "[grpo]") {
  Config whole = small_config(), parts = small_config();
  parts.grpo.micro_batch_tokens = 20;  // one or two answers at a time
  check_same_curve(train(parts, 2, "alltoall", 4)[0], train(whole, 2, "alltoall", 4)[0]);
}

TEST_CASE("every variant's curve is the same on any number of ranks, in whatever parts", "[grpo]") {
  const std::vector<void (*)(GrpoConfig&)> variants = {
      [](GrpoConfig& grpo) { grpo.advantage = "batch_std"; },
      [](GrpoConfig& grpo) { grpo.advantage = "leave_one_out_std"; },
      [](GrpoConfig& grpo) { grpo.advantage = "pass_at_k"; },
      [](GrpoConfig& grpo) { grpo.objective = "gspo", grpo.aggregation = "sequence_mean"; },
      [](GrpoConfig& grpo) { grpo.objective = "cispo", grpo.aggregation = "constant_length_mean"; },
      [](GrpoConfig& grpo) { grpo.kl_coef = 0.1, grpo.kl_estimator = "k3_plus"; },
      [](GrpoConfig& grpo) { grpo.correction = "truncate_token", grpo.aggregation = "constant_length_sum"; },
      [](GrpoConfig& grpo) { grpo.correction = "mask_sequence", grpo.aggregation = "sequence_sum_mean"; }};
  const double plain = train(small_config(), 1, "alltoall", 3)[0].back().log_prob_mean;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    INFO("variant " << i);
    Config config = small_config();
    variants[i](config.grpo);
    const auto whole = train(config, 1, "alltoall", 3)[0];
    if (i < 6) CHECK(whole.back().log_prob_mean != Approx(plain).epsilon(1e-9));
    config.grpo.micro_batch_tokens = 20;
    check_same_curve(train(config, 4, "alltoall", 3)[3], whole);
  }
}

// The lengths are those of lengths_test.cpp; a policy that could end would have ended some of 16 answers of 8 tokens.
TEST_CASE("answers of a drawn length have it to the token, and rollout and trainer agree on them", "[grpo]") {
  Config config = small_config();
  config.model.vocab = 8;  // one in eight tokens would be the end
  config.grpo.lengths = "fixed";
  const auto fixed = train(config, 2, "alltoall", 3);
  for (const StepResult& step : fixed[0]) {
    CHECK(step.response_tokens == 16 * 8);
    CHECK(step.log_prob_gap < 1e-5);
  }
  config.grpo.lengths = "lognormal";
  const ResponseLengths lengths(config.grpo);
  int tokens = 0;
  for (int sequence = 0; sequence < 16; ++sequence) tokens += lengths.longest({config.seed, 0, sequence});
  const auto one = train(config, 1, "alltoall", 3)[0];
  CHECK(one[0].response_tokens == tokens);
  check_same_curve(train(config, 4, "alltoall", 3)[0], one);
}

// The first answers do not know of it: their tokens are the same, and their mean length says what they lose.
TEST_CASE("the overlong penalty is part of the reward", "[grpo]") {
  Config config = small_config();
  const auto free = train(config, 1, "alltoall", 1)[0][0];
  config.grpo.overlong_tokens = 8;  // each token costs an eighth
  const auto step = train(config, 2, "alltoall", 1)[0][0];
  CHECK(step.token_checksum == free.token_checksum);
  CHECK(step.reward_mean == Approx(free.reward_mean - static_cast<double>(free.response_tokens) / 16 / 8));
}

TEST_CASE("more ranks than prompts leaves some with nothing to generate, and all go on", "[grpo]") {
  Config config = small_config();
  config.grpo.prompts = 2;
  check_same_curve(train(config, 8, "rank_dedup", 3)[7], train(config, 1, "alltoall", 3)[0]);
}

TEST_CASE("answers may be one token long", "[grpo]") {
  Config config = small_config();
  config.grpo.response_tokens_min = config.grpo.response_tokens_max = 1;
  const auto step = train(config, 2, "alltoall", 2)[0][1];
  CHECK(step.response_tokens == 16);
  CHECK(std::isfinite(step.loss));
}

TEST_CASE("a large weight on the KL divergence holds the policy back", "[grpo]") {
  Config free = small_config(), held = small_config();
  free.grpo.kl_coef = 1e-9;  // measured, and of no force
  held.grpo.kl_coef = 10;
  const double free_kl = train(free, 1, "alltoall", 12)[0].back().kl_mean;
  const double held_kl = train(held, 1, "alltoall", 12)[0].back().kl_mean;
  CHECK(free_kl > 0);
  CHECK(held_kl < free_kl / 2);
}

TEST_CASE("the balancing loss evens out what the router does, on any number of ranks alike", "[grpo]") {
  Config config = small_config();
  config.grpo.router_aux_coef = 0.1;
  const auto one = train(config, 1, "alltoall", 6)[0];
  check_same_curve(train(config, 4, "alltoall", 6)[0], one);
  const auto without = train(small_config(), 1, "alltoall", 6)[0];
  CHECK(one.back().log_prob_mean != without.back().log_prob_mean);
}

TEST_CASE("how tokens are averaged changes the loss", "[grpo]") {
  Config config = small_config();
  const double by_token = train(config, 1, "alltoall", 1)[0][0].loss;
  config.grpo.aggregation = "sequence_mean";
  CHECK(train(config, 1, "alltoall", 1)[0][0].loss != Approx(by_token).epsilon(1e-6));
}

// The clock moves by one at each reading, so every nanosecond is spent between two readings, and what no phase
// accounts for are the readings between phases.
TEST_CASE("phases and what is between them add up to the wall time exactly", "[grpo]") {
  const mrb::test::FakeClock clock(1);
  const auto times = train(small_config(), 1, "alltoall", 1, clock)[0][0].times;
  std::int64_t sum = times.unaccounted_ns;
  for (const auto& [name, ns] : times.phase_ns) sum += ns;
  CHECK(sum == times.wall_ns);
  for (const char* phase : {"prefill",
                            "prefill.dispatch",
                            "prefill.combine",
                            "decode",
                            "decode.dispatch",
                            "decode.combine",
                            "reward",
                            "log_probs",
                            "log_probs.dispatch",
                            "advantages",
                            "forward",
                            "forward.dispatch",
                            "forward.combine",
                            "backward",
                            "backward.dispatch",
                            "backward.combine",
                            "gradient_reduction",
                            "optimizer",
                            "weight_sync",
                            "idle"}) {
    INFO(phase);
    CHECK(times.phase_ns.contains(phase));
  }
}
