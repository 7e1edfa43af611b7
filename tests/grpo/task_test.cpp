#include <set>

#include "grpo/batch.hpp"
#include "grpo/prompts.hpp"
#include "grpo/reward.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::Approx;

TEST_CASE("prompts are functions of seed, step and prompt, and end with a key", "[grpo]") {
  GrpoConfig config;
  config.prompt_tokens = 6;
  std::set<std::int32_t> keys;
  for (int prompt = 0; prompt < 50; ++prompt) {
    const auto tokens = draw_prompt(7, 3, prompt, config, 64);
    REQUIRE(tokens.size() == 6);
    CHECK(tokens == draw_prompt(7, 3, prompt, config, 64));
    CHECK(tokens != draw_prompt(7, 4, prompt, config, 64));
    CHECK(tokens != draw_prompt(8, 3, prompt, config, 64));
    for (const auto token : tokens) CHECK((token > kEndToken && token < 64));
    keys.insert(tokens.back());
  }
  CHECK(keys == std::set<std::int32_t>{1, 2, 3, 4});
}

// Key 2: class 2 of 4. Of the answer 2 6 3 10, three tokens are of class 2; the longest could have been 8.
TEST_CASE("the reward is the share of the key's class, against the longest length", "[grpo]") {
  const std::int32_t prompt[] = {9, 9, 2};
  const std::int32_t answer[] = {2, 6, 3, 10};
  CHECK(class_reward(prompt, answer, 8) == Approx(3.0 / 8));
  CHECK(class_reward(prompt, answer, 4) == Approx(3.0 / 4));
}

TEST_CASE("the end token never counts, though its number is of class 0", "[grpo]") {
  const std::int32_t prompt[] = {4};
  const std::int32_t answer[] = {8, kEndToken};
  CHECK(class_reward(prompt, answer, 2) == Approx(0.5));
}

// DAPO's numbers: 20480 tokens at most, of which the last 4096 cost.
TEST_CASE("long answers lose up to one, in proportion to how far into the last tokens they get", "[grpo]") {
  const auto penalty = [](int length) { return overlong_penalty(length, 20480, 4096); };
  CHECK(penalty(1) == 0);
  CHECK(penalty(16384) == 0);
  CHECK(penalty(16385) == -1 / 4096.0);
  CHECK(penalty(18000) == -0.39453125);
  CHECK(penalty(20480) == -1);
  CHECK(penalty(20481) == -1);
  CHECK(overlong_penalty(20480, 20480, 0) == 0);
  CHECK(overlong_penalty(4, 8, 8) == -0.5);
}

TEST_CASE("prompts are spread over ranks in contiguous parts that differ by one at most", "[grpo]") {
  for (const int ranks : {1, 2, 3, 5, 16, 20}) {
    int next = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto range = prompts_of_rank(16, rank, ranks);
      CHECK(range.first == next);
      CHECK((range.end - range.first == 16 / ranks || range.end - range.first == (16 + ranks - 1) / ranks));
      next = range.end;
    }
    CHECK(next == 16);
  }
}

TEST_CASE("minibatches are a seeded shuffle of all answers, cut in even parts", "[grpo]") {
  const auto parts = draw_minibatches(1, 2, 0, 10, 3);
  REQUIRE(parts.size() == 3);
  std::set<int> all;
  for (const auto& part : parts) {
    CHECK((part.size() == 3 || part.size() == 4));
    all.insert(part.begin(), part.end());
  }
  CHECK(all.size() == 10);
  CHECK(parts == draw_minibatches(1, 2, 0, 10, 3));
  CHECK(parts != draw_minibatches(1, 2, 1, 10, 3));
}

// Two answers to prompts of two tokens: [5 6 | 7 8 9] and [5 6 | 7]. What runs is all but the last token; a token is
// scored at the row of the one before it.
TEST_CASE("answers are packed without their last token and scored one row earlier", "[grpo]") {
  const Trajectory a{.prompt = {5, 6}, .answer = {7, 8, 9}}, b{.prompt = {5, 6}, .answer = {7}};
  const Trajectory* both[] = {&a, &b};
  const auto batches = pack(both, 100);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].packed.tokens == std::vector<std::int32_t>{5, 6, 7, 8, 5, 6});
  CHECK(batches[0].packed.offsets == std::vector<std::int32_t>{0, 4, 6});
  CHECK(batches[0].scored.rows == std::vector<std::int32_t>{1, 2, 3, 5});
  CHECK(batches[0].scored.targets == std::vector<std::int32_t>{7, 8, 9, 7});
}

TEST_CASE("a micro-batch holds as many answers as fit, and at least one", "[grpo]") {
  const Trajectory answer{.prompt = {1, 2, 3}, .answer = {4, 5}};  // four tokens each
  const Trajectory* answers[] = {&answer, &answer, &answer};
  CHECK(pack(answers, 12).size() == 1);
  CHECK(pack(answers, 11).size() == 2);
  CHECK(pack(answers, 1).size() == 3);
  CHECK(pack(std::span<const Trajectory* const>(), 10).empty());
}
