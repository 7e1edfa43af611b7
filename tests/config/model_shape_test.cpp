// Outside judges: parameter counts that the models' authors publish, and those worked out for the same shapes elsewhere
// (columns of billions: total; active with embedding and head, without the input embedding, with neither; then the
// share of all weights that is in experts, and bytes of cache per token in bf16).
#include "config/model_shape.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::Approx;

namespace {

struct Published {
  const char* name;
  double total, active, active_without_input, active_without_either;
  double expert_share;
  std::int64_t kv_bytes;
};

constexpr Published kModels[] = {{"qwen3-30b-a3b", 30.53, 3.35, 3.04, 2.73, 0.950, 98304},
                                 {"qwen3-235b-a22b", 235.09, 22.19, 21.57, 20.95, 0.966, 192512},
                                 {"deepseek-v3", 671.03, 37.55, 36.62, 35.70, 0.974, 70272},
                                 {"kimi-k2", 1026.4, 32.86, 31.69, 30.51, 0.989, 70272},
                                 {"gpt-oss-120b", 116.79, 5.71, 5.13, 4.55, 0.982, 73728},
                                 {"mixtral-8x7b", 46.70, 12.88, 12.75, 12.62, 0.966, 131072},
                                 {"glm-4.5", 352.80, 33.63, 32.85, 32.08, 0.952, 376832},
                                 {"glm-4.5-air", 106.85, 13.42, 12.80, 12.18, 0.933, 188416},
                                 {"minimax-m1", 456.09, 48.40, 47.17, 45.94, 0.953, 40960},
                                 {"minimax-m2", 228.69, 11.03, 10.42, 9.80, 0.982, 253952}};

ModelShape preset(const char* name) {
  const auto shape = find_model_preset(name);
  REQUIRE(shape);
  return *shape;
}

}  // namespace

TEST_CASE("the presets have the published models' parameters", "[config]") {
  for (const Published& model : kModels) {
    INFO(model.name);
    const ParameterCount count = count_parameters(preset(model.name));
    const auto billions = [](std::int64_t weights) { return static_cast<double>(weights) / 1e9; };
    CHECK(billions(count.total) == Approx(model.total).margin(model.total > 1000 ? 0.05 : 0.00501));
    CHECK(billions(count.active) == Approx(model.active).margin(0.00501));
    CHECK(billions(count.active - count.embedding) == Approx(model.active_without_input).margin(0.00501));
    CHECK(billions(count.active - count.embedding - count.head) == Approx(model.active_without_either).margin(0.00501));
    CHECK(static_cast<double>(count.experts) / static_cast<double>(count.total) ==
          Approx(model.expert_share).margin(0.000501));
    CHECK(kv_bytes_per_token(preset(model.name), 2) == model.kv_bytes);
  }
}

// Norms, biases and multi-token prediction are left out, which Kimi-K2 feels most.
TEST_CASE("the totals are within 1.5% of what the authors publish", "[config]") {
  for (const ModelPreset& model : model_presets()) {
    if (model.published_total_billion == 0) continue;
    INFO(model.shape.name);
    CHECK(static_cast<double>(count_parameters(model.shape).total) / 1e9 ==
          Approx(model.published_total_billion).epsilon(0.015));
  }
}

// Authors count the embeddings or leave them out, and round; to 2% they are between the two.
TEST_CASE("the active weights are what the authors publish, with the embeddings or without", "[config]") {
  for (const ModelPreset& model : model_presets()) {
    if (model.published_active_billion == 0) continue;
    INFO(model.shape.name);
    const ParameterCount count = count_parameters(model.shape);
    const auto billions = [](std::int64_t weights) { return static_cast<double>(weights) / 1e9; };
    CHECK(billions(count.active) > model.published_active_billion * 0.98);
    CHECK(billions(count.active - count.embedding - count.head) < model.published_active_billion * 1.02);
  }
}

TEST_CASE("a tied head is counted once", "[config]") {
  ModelShape shape;
  const std::int64_t untied = count_parameters(shape).total;
  shape.tied_head = true;
  CHECK(count_parameters(shape).head == 0);
  CHECK(untied - count_parameters(shape).total == 64 * 128);
}

TEST_CASE("two presets are small enough to run here", "[config]") {
  CHECK(static_cast<double>(count_parameters(preset("tiny")).total) == Approx(1e6).epsilon(0.15));
  CHECK(static_cast<double>(count_parameters(preset("small")).total) == Approx(30e6).epsilon(0.1));
  for (const int ranks : {1, 2, 4, 8}) {
    CHECK(preset("tiny").experts % ranks == 0);
    CHECK(preset("small").experts % ranks == 0);
  }
  CHECK_FALSE(find_model_preset("tinny"));
}
