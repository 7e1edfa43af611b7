// Worked numbers, computed in double precision from the formulae, for the differences 0.5, -1.2 and 1.5.
#include "grpo/correction.hpp"

#include <cmath>
#include <vector>

#include "support/catch.hpp"

using mrb::correction_weights;
using mrb::test::Approx;

namespace {

using Values = std::vector<double>;

// Exact in float: the differences of these two are 0.5, -1.2 (to float's precision) and 1.5.
const std::vector<float> kOld = {-1.0f, -2.0f, -0.5f}, kRollout = {-1.5f, -0.8f, -2.0f};

void check(const char* correction, const mrb::CorrectionBounds& bounds, const Values& expected) {
  INFO(correction);
  const auto weights = correction_weights(correction, bounds, kOld, kRollout);
  REQUIRE(weights.size() == expected.size());
  for (std::size_t i = 0; i < weights.size(); ++i) CHECK(weights[i] == Approx(expected[i]).margin(1e-7));
}

}  // namespace

TEST_CASE("ratios are truncated by token, by sequence, or by their geometric mean", "[grpo]") {
  check("none", {}, {1, 1, 1});
  check("truncate_token", {.low = 0, .high = 2}, {1.648721271, 0.301194212, 2});
  check("truncate_sequence", {.low = 0, .high = 2}, {2, 2, 2});  // exp(0.8) = 2.225540928
  check("truncate_sequence", {.low = 0, .high = 3}, {2.225540928, 2.225540928, 2.225540928});
  check("truncate_geometric", {.low = 0, .high = 2}, {1.305605172, 1.305605172, 1.305605172});
}

TEST_CASE("masks drop what lies outside of both bounds, and keep the ratio inside", "[grpo]") {
  check("mask_token", {.low = 0, .high = 2}, {1.648721271, 0.301194212, 0});
  check("mask_token", {.low = 0.5, .high = 5}, {1.648721271, 0, 4.481689070});
  check("mask_sequence", {.low = 0, .high = 2}, {0, 0, 0});
  check("mask_sequence", {.low = 0, .high = 3}, {2.225540928, 2.225540928, 2.225540928});
  check("mask_geometric", {.low = 0, .high = 1.3}, {0, 0, 0});
  check("mask_geometric", {.low = 0, .high = 1.31}, {1.305605172, 1.305605172, 1.305605172});
}

TEST_CASE("the decoupled ratio has no bound but the one that keeps it finite", "[grpo]") {
  check("decoupled", {.low = 0, .high = 2}, {1.648721271, 0.301194212, 4.481689070});
  const std::vector<float> far = {0}, away = {-1e4f};
  CHECK(correction_weights("decoupled", {}, far, away)[0] == Approx(std::exp(20.0)));
}

TEST_CASE("where rollout and trainer agree, every correction is one", "[grpo]") {
  for (const char* correction : {"none", "truncate_token", "truncate_sequence", "truncate_geometric", "mask_token",
                                 "mask_sequence", "mask_geometric", "decoupled"}) {
    INFO(correction);
    CHECK(correction_weights(correction, {.low = 1, .high = 1}, kOld, kOld) == Values{1, 1, 1});
  }
}

TEST_CASE("a correction nobody knows lists those there are", "[grpo]") {
  for (const char* correction : {"", "mask", "mask_words", "round_token", "token"}) {
    INFO(correction);
    CHECK_THROWS_WITH(correction_weights(correction, {}, kOld, kRollout),
                      mrb::test::contains("fix: use one of: none, truncate_token,"));
  }
}
