// Judged by the numbers of published shapes: operations per token and decode times worked out in double precision.
#include "planner/model_cost.hpp"

#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("operations of training a token are those worked out for the published shapes", "[planner]") {
  struct Row {
    const char* model;
    double gflop_4096, gflop_32768;
  };
  for (const Row& row :
       {Row{"qwen3-30b-a3b", 23.1, 56.9}, Row{"qwen3-235b-a22b", 148.4, 280.8}, Row{"deepseek-v3", 250.5, 465.4},
        Row{"kimi-k2", 205.5, 312.9}, Row{"glm-4.5", 224.9, 419.4}, Row{"gpt-oss-120b", 34.4, 59.8}}) {
    INFO(row.model);
    const ModelShape shape = find_model_preset(row.model).value();
    CHECK(3 * forward_flop(shape, 2048) / 1e9 == Approx(row.gflop_4096).margin(0.08));
    CHECK(3 * forward_flop(shape, 16384) / 1e9 == Approx(row.gflop_32768).margin(0.08));
  }
}

TEST_CASE("a batch touches the share of experts that combinatorics says", "[planner]") {
  const ModelShape qwen = find_model_preset("qwen3-30b-a3b").value();
  CHECK(touched_experts_ratio(qwen, 8) == Approx(.403).margin(.0006));
  CHECK(touched_experts_ratio(qwen, 64) == Approx(.984).margin(.0006));
  CHECK(touched_experts_ratio(find_model_preset("deepseek-v3").value(), 32) == Approx(.638).margin(.0006));
}

TEST_CASE("a decode step takes as long as reading what it touches", "[planner]") {
  // Qwen3-30B-A3B in bf16 on two H100, 80% of 3.35 TB/s, context 2000.
  const DecodeCost cost = decode_cost(find_model_preset("qwen3-30b-a3b").value(),
                                      {.gpus = 2, .read_byte_per_s = 2 * .8 * 3.35e12, .flop_per_s = 2 * .8 * 989e12});
  CHECK(cost.step_s(1, 2000) * 1e3 == Approx(1.17).margin(.006));
  CHECK(cost.step_s(8, 2000) * 1e3 == Approx(5.11).margin(.006));
  CHECK(cost.step_s(64, 2000) * 1e3 == Approx(13.45).margin(.006));
  CHECK(cost.step_s(256, 2000) * 1e3 == Approx(20.67).margin(.006));
}
