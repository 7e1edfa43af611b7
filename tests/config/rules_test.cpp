#include "config/rules.hpp"

#include "config/loading.hpp"

using namespace mrb;
using mrb::test::contains;
using mrb::test::fault;
using mrb::test::fault_any;

TEST_CASE("experts fit tokens and ranks", "[config]") {
  CHECK(fault("model: {top_k: 9}") == "FILE:1:16: top_k is 9, and there are 8 experts\n  fix: use a top_k of 1 to 8");
  CHECK(fault("model: {experts: 1}") == "FILE:1:18: top_k is 2, and there are 1 experts\n  fix: use a top_k of 1 to 1");
  CHECK(fault("ranks: 3") == "FILE:1:8: 8 experts do not divide over 3 ranks\n  fix: use one of: 1, 2, 4, 8 ranks");
  CHECK_THAT(fault("ranks: 16"), contains("8 experts do not divide over 16 ranks"));
  CHECK_THAT(fault("ranks: 4\nmodel: {experts: 6}"), contains("fix: use one of: 1, 2, 3, 6 ranks"));
}

TEST_CASE("layers and heads fit each other", "[config]") {
  CHECK(fault("model: {heads: 3}") ==
        "FILE:1:16: 3 heads do not divide over 2 kv_heads\n  fix: make heads a multiple of kv_heads; 3 heads "
        "take kv_heads of 1, 3");
  CHECK(fault("model: {head_dim: 31}") ==
        "FILE:1:19: head_dim is 31, and rotary positions turn pairs\n  fix: make it even: 30 or 32");
  CHECK_THAT(
      fault("model: {dense_layers: 2, dense_ff: 8}"),
      contains("2 of 2 layers are dense, and at least one must have experts\n  fix: use dense_layers of 0 to 1"));
  CHECK_THAT(fault("model: {layers: 1, dense_layers: 1, dense_ff: 8}"),
             contains("fix: use dense_layers of 0, or more layers"));
  CHECK(fault("model: {dense_layers: 1}") ==
        "FILE:1:23: 1 layers are dense, and dense_ff is 0\n  fix: give model.dense_ff a width");
}

TEST_CASE("the numbers of a step fit each other", "[config]") {
  CHECK(fault("grpo: {response_tokens_min: 9}") ==
        "FILE:1:29: response_tokens_min is 9, above response_tokens_max of 8\n  fix: make the smaller one "
        "the minimum");
  CHECK(fault("grpo: {minibatches: 300}") ==
        "FILE:1:21: 300 minibatches of 256 answers leave some empty\n  fix: use 1 to 256 minibatches, or "
        "more prompts");
  CHECK(fault("grpo: {prompts: 1048576, group_size: 65536}") ==
        "FILE:1:17: 1048576 prompts with 65536 answers each are 68719476736 answers a step\n  fix: use at "
        "most 16777216 answers a step");
  CHECK_THAT(fault("grpo: {dual_clip: 0.5}"),
             contains("dual_clip is 0.5") && contains("fix: use a number above 1, such as 3, or 0"));
  CHECK(fault("grpo: {dual_clip: 0}") == "no fault");
  CHECK(fault("grpo: {lengths: fixed, response_tokens_max: 2}") == "no fault");
  CHECK(fault("grpo: {lengths: lognormal, length_mean: 20}") ==
        "FILE:1:41: length_mean is 20, above response_tokens_max of 8\n"
        "  fix: raise response_tokens_max, to some times the mean if the tail is to be seen");
  CHECK(fault("grpo: {lengths: empirical}") ==
        "FILE:1:17: lengths is empirical, and there is no length_file\n"
        "  fix: set grpo.length_file to a file with one length in tokens per line");
  CHECK(fault("grpo: {overlong_tokens: 9}") ==
        "FILE:1:25: overlong_tokens is 9, and answers have at most 8 tokens\n  fix: use overlong_tokens of 0 to 8");
  CHECK(fault("grpo: {advantage: pass_at_k, group_size: 1}") ==
        "FILE:1:19: advantage is pass_at_k, the best answer's lead over the second, and group_size is 1\n"
        "  fix: use a group_size of 2 or more, or another advantage");
  CHECK(fault("grpo: {objective: gspo, correction: mask_token}") ==
        "FILE:1:37: objective gspo has one ratio for an answer, and correction mask_token one for each token\n"
        "  fix: use a correction by sequence, such as truncate_sequence, or none");
  CHECK_THAT(fault("grpo: {objective: [clip, gspo], correction: decoupled}"), contains("correction decoupled one"));
  CHECK(fault("grpo: {objective: gspo, correction: mask_geometric}") == "no fault");
  CHECK(fault("grpo: {preset: verl, objective: gspo}") ==
        "FILE:1:33: aggregation is token_mean, and verl averages gspo by sequence_mean whatever it is told\n"
        "  fix: set aggregation: sequence_mean, or leave the preset out");
  CHECK(fault("grpo: {preset: verl, objective: gspo, aggregation: sequence_mean}") == "no fault");
}

TEST_CASE("what can only be planned is not run, and can be looked at", "[config]") {
  CHECK(fault("model: deepseek-v3") ==
        "FILE:1:8: model 'deepseek-v3' has mla attention, which cannot be run here; its shape is for planning\n"
        "  fix: use a model with grouped-query attention, such as small or qwen3-30b-a3b");
  CHECK_THAT(fault("model: minimax-m1"), contains("has lightning attention"));
  CHECK(fault_any("transport: libfabric") ==
        "FILE:1:12: transport 'libfabric' needs a provider, and there is no default\n"
        "  fix: set transport.provider to tcp, shm or efa");
  CHECK(fault("ranks: 2\nchaos: {seed: 1, stop_rank: 2}") ==
        "FILE:2:29: rank 2 is to stop, and there are 2 ranks\n  fix: use a stop_rank of 0 to 1, or -1 for none");
  const test::TemporaryFile file("model: deepseek-v3\ntransport: libfabric\n");
  CHECK_NOTHROW(load_settings({.file = file.path(), .purpose = Purpose::show}));
}

TEST_CASE("who examines a machine asks about no model, whose experts need not divide over the ranks", "[config]") {
  SettingsSources sources{.flags = {{"ranks", "3"}}, .purpose = Purpose::show};
  CHECK_THROWS_WITH(load_settings(sources), contains("8 experts do not divide over 3 ranks"));
  sources.purpose = Purpose::examine;
  CHECK(load_settings(sources).at("ranks").values.front() == "3");
}

TEST_CASE("each pair of a list that does not fit is a fault", "[config]") {
  const std::string text = fault("model: {experts: [4, 8, 2], top_k: [2, 4]}");
  CHECK_THAT(text, contains("FILE:1:36: top_k is 4, and there are 2 experts") && !contains("faults"));
}

TEST_CASE("a rule is not judged by a value that stands in for a wrong one", "[config]") {
  CHECK_THAT(fault("model: {name: qwen3, top_k: 16}"), contains("'model' cannot be 'qwen3'") && !contains("experts"));
  CHECK_THAT(fault("model: {experts: many, top_k: 16}"),
             contains("'model.experts' cannot be 'many'") && !contains("top_k is"));
  CHECK_THAT(fault("model: {experts: many, head_dim: 3}"), contains("2 faults") && contains("head_dim is 3"));
  CHECK_THAT(fault("transport: {name: libfabrik, provider: tcp}"), !contains("provider"));
}
