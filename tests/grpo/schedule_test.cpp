#include "grpo/schedule.hpp"

#include <algorithm>
#include <set>

#include "support/catch.hpp"
#include "support/run_schedule.hpp"
#include "support/train.hpp"

using namespace mrb;
using mrb::test::Approx;
using mrb::test::run_schedule;

namespace {

Config small_config(const char* schedule, int train_ranks, int rollout_ranks) {
  Config config;
  config.ranks = train_ranks + rollout_ranks;
  config.schedule.name = schedule;
  config.schedule.rollout_ranks = rollout_ranks;
  config.model.hidden = 32;
  config.model.heads = 2;
  config.model.kv_heads = 1;
  config.model.head_dim = 16;
  config.model.expert_ff = 32;
  config.grpo.prompts = 4;
  config.grpo.group_size = 4;
  return config;
}

std::vector<double> losses(const std::vector<RankStep>& steps) {
  std::vector<double> all;
  for (const RankStep& step : steps) all.push_back(step.result.loss);
  return all;
}

}  // namespace

TEST_CASE("the curve does not depend on which ranks generate, when no weights are old", "[grpo]") {
  Config colocated = small_config("colocated", 2, 0);
  const auto expected = run_schedule(colocated, 6)[0];
  for (const auto& [train_ranks, rollout_ranks] : {std::pair{1, 1}, {2, 2}, {1, 4}, {4, 1}, {2, 4}}) {
    INFO(train_ranks << " ranks train, " << rollout_ranks << " generate");
    const auto ranks = run_schedule(small_config("disaggregated", train_ranks, rollout_ranks), 6);
    REQUIRE(ranks[0].size() == expected.size());
    for (std::size_t step = 0; step < expected.size(); ++step) {
      const StepResult &a = ranks[0][step].result, &b = expected[step].result;
      CHECK(a.token_checksum == b.token_checksum);
      CHECK(a.loss == Approx(b.loss).epsilon(1e-4).margin(1e-6));
      CHECK(a.reward_mean == Approx(b.reward_mean).epsilon(1e-4));
      CHECK(a.log_prob_gap < 1e-5);  // the weights that generated are those that train
      CHECK(a.age_max == 0);
    }
  }
}

TEST_CASE("async without staleness is disaggregated, bit for bit", "[grpo]") {
  Config async = small_config("async", 2, 2);
  async.schedule.max_staleness = 0;
  const auto expected = run_schedule(small_config("disaggregated", 2, 2), 5);
  CHECK(losses(run_schedule(async, 5)[0]) == losses(expected[0]));
  async.schedule.in_flight = true;
  CHECK(losses(run_schedule(async, 5)[0]) == losses(expected[0]));
}

TEST_CASE("one step off is exactly one step off, and the same every time", "[grpo]") {
  const Config config = small_config("one_step_off", 2, 2);
  const auto first = run_schedule(config, 6)[0];
  for (const RankStep& step : first) {
    CHECK(step.result.age_mean == (step.result.step == 0 ? 0 : 1));
    CHECK(step.result.age_max == (step.result.step == 0 ? 0 : 1));
  }
  CHECK(losses(run_schedule(config, 6)[0]) == losses(first));
}

TEST_CASE("no answer is older than max_staleness, however late ranks are", "[grpo]") {
  for (const bool in_flight : {false, true}) {
    for (const int bound : {1, 3}) {
      for (const std::uint64_t seed : {1, 2}) {
        INFO("max_staleness " << bound << ", in flight " << in_flight << ", seed " << seed);
        Config config = small_config("async", 2, 2);
        config.rollout.expert_parallel = 1;  // ranks that generate do not wait for each other
        config.schedule.max_staleness = bound;
        config.schedule.in_flight = in_flight;
        const auto ranks = run_schedule(config, 8, {.chaos = {.seed = seed, .late_start_ms = 5}});
        REQUIRE(ranks[0].size() == 8);
        for (const RankStep& step : ranks[0]) CHECK(step.result.age_max <= bound);
      }
    }
  }
}

TEST_CASE("reward rises in every schedule", "[grpo]") {
  for (const char* schedule : {"disaggregated", "one_step_off", "async"}) {
    Config config = small_config(schedule, 1, 1);
    config.grpo.prompts = 32;
    config.grpo.group_size = 16;
    config.grpo.minibatches = 4;
    config.grpo.prompt_tokens = 3;
    config.grpo.response_tokens_min = 2;
    config.grpo.response_tokens_max = 4;
    config.model.hidden = 64;
    config.model.expert_ff = 64;
    config.schedule.max_staleness = 2;
    const auto steps = run_schedule(config, 25)[0];
    INFO(schedule << ": reward from " << steps.front().result.reward_mean << " to " << steps.back().result.reward_mean);
    CHECK(steps.front().result.reward_mean < 0.35);  // a guess gets a quarter
    CHECK(steps.back().result.reward_mean > 0.7);
  }
}

TEST_CASE("phases and idle add up to the wall time on every rank of both sides", "[grpo]") {
  for (const char* schedule : {"disaggregated", "one_step_off", "async"}) {
    const auto ranks = run_schedule(small_config(schedule, 1, 2), 5);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      INFO(schedule << ", rank " << rank);
      REQUIRE(ranks[rank].size() == 5);
      std::set<std::string> phases;
      for (const RankStep& step : ranks[rank]) {
        const auto& times = step.result.times;
        std::int64_t sum = 0;
        for (const auto& [phase, ns] : times.phase_ns) {
          sum += ns;
          phases.insert(phase);
        }
        CHECK(sum + times.unaccounted_ns == times.wall_ns);
        CHECK(sum > 0);
      }
      const std::vector<std::string> own = rank == 0
                                               ? std::vector<std::string>{"wait_rollouts", "forward", "weight_send"}
                                               : std::vector<std::string>{"decode", "prefill", "answer_send"};
      for (const std::string& phase : own) CHECK(phases.contains(phase));
      CHECK_FALSE(phases.contains("weight_send.weight_send"));
    }
  }
}

TEST_CASE("a small cache makes answers wait, and gives the same answers", "[grpo]") {
  Config config = small_config("disaggregated", 1, 2);
  const auto expected = run_schedule(config, 3)[0];
  config.rollout.kv_cache_bytes = 3 * (config.grpo.prompt_tokens + config.grpo.response_tokens_max) *
                                  kv_bytes_per_token(config.model, sizeof(float));
  const auto steps = run_schedule(config, 3)[0];
  for (std::size_t step = 0; step < steps.size(); ++step) {
    CHECK(steps[step].result.token_checksum == expected[step].result.token_checksum);
    CHECK(steps[step].result.loss == Approx(expected[step].result.loss).epsilon(1e-4).margin(1e-6));
  }
}
