#include "planner/memory.hpp"

#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("static training memory of Qwen3-235B is what was worked out for its three splits", "[planner]") {
  const ModelShape shape = find_model_preset("qwen3-235b-a22b").value();
  const auto static_gbyte = [&](const Parallelism& split) {
    return train_memory(shape, split, 4096, Recompute::full, 1).static_bytes() / 1e9;
  };
  CHECK(static_gbyte({.gpus = 128, .tensor = 2, .pipeline = 8, .expert = 16}) == Approx(35.7).margin(.06));
  CHECK(static_gbyte({.gpus = 256, .tensor = 2, .pipeline = 8, .expert = 16}) == Approx(24.7).margin(.06));
  CHECK(static_gbyte({.gpus = 256, .tensor = 4, .pipeline = 4, .expert = 16}) == Approx(35.3).margin(.06));
}

TEST_CASE("more tensor ranks than heads of keys hold them more than once", "[planner]") {
  const ModelShape qwen = find_model_preset("qwen3-235b-a22b").value();
  CHECK(kv_bytes_per_gpu(qwen, 8) == 48128);
  CHECK(kv_bytes_per_gpu(qwen, 4) == 48128);
  CHECK(rollout_weight_bytes(qwen, 8) / 1e9 == Approx(58.8).margin(.06));
  const ModelShape deepseek = find_model_preset("deepseek-v3").value();
  CHECK(kv_bytes_per_gpu(deepseek, 16) == 70272);  // the latent vector is on all of them
}

TEST_CASE("recomputing and tensor ranks save activations, imbalance costs some", "[planner]") {
  const ModelShape shape = find_model_preset("qwen3-30b-a3b").value();
  const Parallelism one{.gpus = 8, .expert = 8}, two{.gpus = 8, .tensor = 2, .expert = 8};
  const double kept = train_memory(shape, one, 4096, Recompute::none, 1).activation_bytes;
  CHECK(train_memory(shape, one, 4096, Recompute::full, 1).activation_bytes < kept / 5);
  CHECK(train_memory(shape, two, 4096, Recompute::none, 1).activation_bytes == Approx(kept / 2));
  CHECK(train_memory(shape, one, 4096, Recompute::none, 2).activation_bytes > kept);
}
