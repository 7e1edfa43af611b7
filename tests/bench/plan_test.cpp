#include "bench/plan.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::contains;

namespace {

Settings settings(std::vector<std::string> sets) {
  SettingsSources sources;
  sources.sets = std::move(sets);
  return load_settings(sources);
}

}  // namespace

TEST_CASE("every combination of methods is an experiment, and one is the baseline", "[bench]") {
  const Plan plan = make_plan(settings({"ranks=2", "dispatcher=alltoall,rank_dedup", "transport=mpi,libfabric",
                                        "transport.provider=shm", "baseline.dispatcher=rank_dedup"}),
                              {});
  std::vector<std::string> labels;
  for (const Experiment& experiment : plan.experiments) labels.push_back(experiment.label);
  CHECK(labels == std::vector<std::string>{"alltoall mpi", "alltoall libfabric/shm", "rank_dedup mpi",
                                           "rank_dedup libfabric/shm"});
  CHECK(plan.experiments[2].is_baseline);
  CHECK(std::count_if(plan.experiments.begin(), plan.experiments.end(),
                      [](const Experiment& e) { return e.is_baseline; }) == 1);
  for (const Experiment& experiment : plan.experiments)
    CHECK(experiment.workload_id == plan.experiments[0].workload_id);
}

TEST_CASE("what varies of a transport is in the label", "[bench]") {
  const Plan plan = make_plan(
      settings({"ranks=2", "transport=libfabric", "transport.provider=shm", "transport.progress=poll,thread"}), {});
  REQUIRE(plan.experiments.size() == 2);
  CHECK(plan.experiments[0].label == "progress=poll");
  CHECK(plan.experiments[1].label == "progress=thread");
}

TEST_CASE("other work is another workload, with a baseline of its own", "[bench]") {
  const Plan plan = make_plan(settings({"grpo.prompts=2,4", "compute.threads=1,2"}), {});
  REQUIRE(plan.experiments.size() == 4);
  CHECK(plan.experiments[0].label == "prompts=2 threads=1");
  CHECK(plan.experiments[0].workload_id == plan.experiments[1].workload_id);
  CHECK(plan.experiments[1].workload_id != plan.experiments[2].workload_id);
  CHECK(plan.experiments[0].is_baseline);
  CHECK(plan.experiments[2].is_baseline);
}

TEST_CASE("the id of an experiment depends on what it computes and how", "[bench]") {
  const Plan plan = make_plan(settings({"compute.threads=1,2"}), {});
  CHECK(plan.experiments[0].id != plan.experiments[1].id);
  const auto id = [](std::vector<std::string> sets) {
    return make_plan(settings(std::move(sets)), {}).experiments[0].id;
  };
  CHECK(plan.experiments[1].id == id({"compute.threads=2", "measure.steps=9", "output.dir=elsewhere"}));
  CHECK(id({"ranks=2", "transport=mpi"}) != id({"ranks=4", "transport=mpi"}));
}

TEST_CASE("a block is every experiment in some order, and then its mirror image", "[bench]") {
  const Plan plan = make_plan(settings({"compute.threads=1,2,3", "measure.blocks=20"}), {});
  REQUIRE(plan.blocks.size() == 20);
  std::vector<std::vector<int>> orders;
  for (const auto& block : plan.blocks) {
    REQUIRE(block.size() == 6);
    CHECK(std::equal(block.begin(), block.end(), block.rbegin()));
    std::vector<int> half(block.begin(), block.begin() + 3);
    orders.push_back(half);
    std::sort(half.begin(), half.end());
    CHECK(half == std::vector<int>{0, 1, 2});
  }
  // Under a drift that grows by the launch, all experiments of a block suffer alike: their two places add up to 5.
  std::sort(orders.begin(), orders.end());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  CHECK(orders.size() > 1);  // and no experiment always begins
}

TEST_CASE("the order of launches is the seed's", "[bench]") {
  const auto blocks = [](const char* seed) {
    return make_plan(settings({"compute.threads=1,2,3", "measure.blocks=20", std::string("seed=") + seed}), {}).blocks;
  };
  CHECK(blocks("1") == blocks("1"));
  CHECK(blocks("1") != blocks("2"));
}

TEST_CASE("what cannot run is skipped with its reason, and another baseline is a note", "[bench]") {
  const Plan plan = make_plan(settings({"ranks=2", "dispatcher=reference,alltoall,rank_dedup"}), {});
  REQUIRE(plan.skipped.size() == 1);
  CHECK(plan.skipped[0].reason == "dispatcher 'reference' works on at most 1 rank, and there are 2");
  CHECK(plan.experiments[0].is_baseline);
  REQUIRE(plan.notes.size() == 1);
  CHECK(plan.notes[0] == "the baseline, reference, cannot run here; alltoall takes its place");
}

TEST_CASE("more nodes than the machines are is a note", "[bench]") {
  const auto notes_of = [](const char* ranks_per_node, int real) {
    const Plan plan = make_plan(settings({"ranks=4", "transport=mpi", ranks_per_node}), {.ranks_per_node = real});
    return plan.notes;
  };
  CHECK(notes_of("ranks_per_node=0", 4).empty());
  CHECK(notes_of("ranks_per_node=2", 2).empty());
  REQUIRE(notes_of("ranks_per_node=2", 4).size() == 1);
  CHECK_THAT(notes_of("ranks_per_node=2", 4)[0],
             contains("emulated nodes: the dispatchers take 2 ranks for a node, and the machines have 4 each"));
}

TEST_CASE("chaos is a note, and another method", "[bench]") {
  const Plan clean = make_plan(settings({"ranks=2", "transport=mpi"}), {});
  const Plan chaos = make_plan(settings({"ranks=2", "transport=mpi", "chaos.seed=7"}), {});
  CHECK(clean.notes.empty());
  REQUIRE(chaos.notes.size() == 1);
  CHECK_THAT(chaos.notes[0], contains("chaos: ") && contains("times mean nothing"));
  CHECK(chaos.experiments[0].id != clean.experiments[0].id);
  CHECK(chaos.experiments[0].workload_id == clean.experiments[0].workload_id);
}

TEST_CASE("a dispatcher with too little room is skipped with the numbers", "[bench]") {
  // Two ranks: 8 prompts of 8 tokens and 16 answers each in one call, or 2048 tokens of a micro-batch at most.
  const auto all =
      settings({"ranks=2", "transport=mpi", "dispatcher=alltoall,low_latency", "dispatcher.tokens_max=127"});
  const Plan plan = make_plan(all, {});
  REQUIRE(plan.experiments.size() == 1);
  REQUIRE(plan.skipped.size() == 1);
  CHECK(plan.skipped[0].reason ==
        "dispatcher 'low_latency' would have room for 127 tokens of a rank in one call (dispatcher.tokens_max), and "
        "there may be 2048");
}

TEST_CASE("nothing that can run is an error with every reason", "[bench]") {
  CHECK_THROWS_WITH(make_plan(settings({"ranks=2", "transport=loopback"}), {}),
                    contains("'loopback' stays within one process, and there are 2 ranks") && contains("fix: "));
}

TEST_CASE("memory is weights, cache and activations", "[bench]") {
  Config config;  // tiny: 116 736 weights on every rank, 786 432 in experts
  config.ranks = 2;
  // Weight, gradient, packed copy and two moments: 20 bytes for each of 116 736 + 786 432 / 2 = 509 952 weights.
  // Cache of 8 prompts x 16 answers x 16 tokens, 2 layers x 2 heads x 32 keys and values of 4 bytes: 1024 a token.
  // Activations of 2048 tokens, 2 layers: 2 x 128 + (2 x 4 + 2 x 2) x 32 + 2 x (128 + 2 x 128) = 1408 floats a token.
  CHECK(estimate_memory_bytes(config) == 10'199'040 + 2'097'152 + 23'068'672);
}

TEST_CASE("what does not fit into memory is skipped with the sizes", "[bench]") {
  const Plan plan = make_plan(settings({"model=tiny,small"}), {.memory_bytes_per_rank = 200 << 20});
  REQUIRE(plan.skipped.size() == 1);
  CHECK(plan.skipped[0].experiment.label == "model=small");
  CHECK_THAT(plan.skipped[0].reason, contains("it needs about") && contains("and there are 200.0 MiB"));
}
