#include "planner/rollout.hpp"

#include "planner/inputs.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

const LengthDistribution kVaried{.mean_tokens = 1000, .cv = 1, .max_tokens = 8000};
const RolloutBatch kBatch{.answers = 1024, .group_size = 16, .prompt_tokens = 512};

RolloutCost cost_of(const LengthDistribution& lengths, int gpus, int engine_gpus = 2) {
  return rollout_cost(kQwen, kBatch, length_profile(lengths, kBatch.answers), kP5, gpus, engine_gpus).value();
}

}  // namespace

TEST_CASE("the expected longest answer is that of the Monte Carlo table", "[planner]") {
  // Lognormal of mean 1, cut at 8: E[max of n] of a published table within its 5%. At cv .75 and n 128 that table, of 20
  // to 60 repetitions, says 5.1; 4,000 repetitions say 4.62, as the formula does.
  const auto longest = [](double cv, int answers) {
    return length_profile({.mean_tokens = 1, .cv = cv, .max_tokens = 8}, answers).longest_tokens;
  };
  CHECK(longest(.25, 128) == Approx(1.8).epsilon(.06));
  CHECK(longest(.5, 16) == Approx(2.2).epsilon(.06));
  CHECK(longest(.5, 1024) == Approx(4.1).epsilon(.06));
  CHECK(longest(.75, 128) == Approx(4.62).epsilon(.02));
  CHECK(longest(1, 128) == Approx(6.1).epsilon(.06));
  CHECK(longest(1, 8192) == Approx(8.0).epsilon(.01));
}

TEST_CASE("a slot that is refilled holds more the more lengths vary", "[planner]") {
  // E[L] (1 + cv^2) / 2: half the mean when all are alike, .625 at cv .5.
  CHECK(length_profile({.mean_tokens = 1000, .cv = 0, .max_tokens = 1e5}, 64).resident_tokens == Approx(500));
  CHECK(length_profile({.mean_tokens = 1000, .cv = .5, .max_tokens = 1e5}, 64).resident_tokens ==
        Approx(625).epsilon(.02));
}

TEST_CASE("answers that vary take longer than answers that do not, though there are as many tokens", "[planner]") {
  const LengthDistribution alike{.mean_tokens = 1000, .cv = 0, .max_tokens = 8000};
  CHECK(cost_of(kVaried, 64).seconds > 1.5 * cost_of(alike, 64).seconds);
}

TEST_CASE("more GPUs never generate slower, and hardly faster once the tail decides", "[planner]") {
  const double at_16 = cost_of(kVaried, 16).seconds, at_32 = cost_of(kVaried, 32).seconds,
               at_512 = cost_of(kVaried, 512).seconds, at_1024 = cost_of(kVaried, 1024).seconds;
  CHECK(at_32 < at_16);
  CHECK(at_1024 <= at_512);
  CHECK(at_1024 > .7 * at_512);
}

TEST_CASE("without the tail a batch is never slower", "[planner]") {
  for (const int gpus : {8, 64, 256}) CHECK(cost_of(kVaried, gpus).sustained_s <= cost_of(kVaried, gpus).seconds);
}

TEST_CASE("an engine whose weights fill its memory cannot generate", "[planner]") {
  const ModelShape deepseek = find_model_preset("deepseek-v3").value();
  const LengthProfile lengths = length_profile(kVaried, 1024);
  CHECK_FALSE(rollout_cost(deepseek, kBatch, lengths, kP5, 64, 8));
  CHECK(rollout_cost(deepseek, kBatch, lengths, kP5, 64, 32));
}
