#include <set>

#include "config/loading.hpp"

using namespace mrb;
using mrb::test::load;
using mrb::test::load_any;

namespace {

std::string all_lines(const Point& point) {
  return canonical_lines(point.config, FieldSet::all);
}

using Axes = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("settings without lists are one point, and the baseline", "[config]") {
  const auto points = expand(load("ranks: 2\n"));
  REQUIRE(points.size() == 1);
  CHECK(points[0].config.ranks == 2);
  CHECK(points[0].is_baseline);
  CHECK(points[0].workload.empty());
  CHECK(points[0].method.empty());
}

TEST_CASE("the product of lists has every combination once, last key fastest, and one baseline per workload",
          "[config]") {
  const auto points =
      expand(load("grpo: {prompts: [2, 4]}\ndispatcher: [alltoall, rank_dedup]\ntransport: [mpi, loopback]\n"
                  "baseline: {dispatcher: rank_dedup}\n"));
  REQUIRE(points.size() == 8);
  for (std::size_t i = 0; i < points.size(); ++i) {
    INFO(i);
    const Point& point = points[i];
    CHECK(point.workload == Axes{{"grpo.prompts", i < 4 ? "2" : "4"}});
    CHECK(point.method ==
          Axes{{"dispatcher", i % 4 < 2 ? "alltoall" : "rank_dedup"}, {"transport", i % 2 < 1 ? "mpi" : "loopback"}});
    CHECK(point.config.grpo.prompts == (i < 4 ? 2 : 4));
    CHECK(point.is_baseline == (i % 4 == 2));
  }
}

TEST_CASE("points that differ in a key without meaning are one point", "[config]") {
  const auto points = expand(
      load_any("transport: {name: [mpi, libfabric], provider: [tcp, shm]}\nbaseline: {transport.provider: shm}\n"));
  REQUIRE(points.size() == 3);
  CHECK(points[0].method == Axes{{"transport", "mpi"}});
  CHECK(points[0].config.transport.provider.empty());
  CHECK(points[0].is_baseline);
  CHECK(points[1].method == Axes{{"transport", "libfabric"}, {"transport.provider", "tcp"}});
  CHECK(points[2].method == Axes{{"transport", "libfabric"}, {"transport.provider", "shm"}});
}

TEST_CASE("a baseline is found behind a key that only some points have", "[config]") {
  const auto points =
      expand(load_any("transport: {name: [mpi, libfabric], provider: [tcp, shm]}\nbaseline: {transport: "
                      "{name: libfabric, provider: shm}}\n"));
  REQUIRE(points.size() == 3);
  CHECK_FALSE(points[0].is_baseline);
  CHECK_FALSE(points[1].is_baseline);
  CHECK(points[2].is_baseline);
}

TEST_CASE("the short and the long form of a section say the same", "[config]") {
  const auto lines = [](const std::string& yaml) { return all_lines(expand(load(yaml)).at(0)); };
  CHECK(lines("model: small\ntransport: mpi\n") == lines("model: {name: small}\ntransport: {name: mpi}\n"));
  CHECK(lines("model.top_k: 1\n") == lines("model:\n  top_k: 1\n"));
}

TEST_CASE("keys under model change the preset, for every model of a list", "[config]") {
  const auto points = expand(load("model: {layers: 3, name: [tiny, small]}\n"));
  REQUIRE(points.size() == 2);
  CHECK(points[0].config.model.hidden == 128);
  CHECK(points[1].config.model.hidden == 384);
  for (const Point& point : points) CHECK(point.config.model.layers == 3);
}

TEST_CASE("the lines of the workload are the same for every method and rank count", "[config]") {
  const auto points = expand(load("grpo: {prompts: [2, 4]}\ndispatcher: [alltoall, rank_dedup]\n"));
  const auto on_two = expand(load("ranks: 2\ngrpo: {prompts: [2, 4]}\nmeasure: {blocks: 9}\n"));
  const auto lines = [](const Point& point) { return canonical_lines(point.config, FieldSet::workload); };
  CHECK(lines(points[0]) == lines(points[1]));
  CHECK(lines(points[0]) == lines(on_two[0]));
  CHECK(lines(points[0]) != lines(points[2]));
  CHECK(lines(expand(load("seed: 2"))[0]) != lines(expand(load("seed: 3"))[0]));
  CHECK(lines(points[0]).find("seed=1\nmodel=tiny\nmodel.layers=2\n") == 0);
}

TEST_CASE("the lines of the method name what decides how", "[config]") {
  CHECK(canonical_lines(Config{}, FieldSet::method) ==
        "ranks_per_node=0\ngrpo.micro_batch_tokens=2048\nschedule=colocated\nrollout.kv_cache_bytes=0\n"
        "dispatcher=alltoall\n"
        "transport=mpi\ncompute=cpu\ncompute.threads=0\n");
  Config config;
  config.transport = {.name = "libfabric", .provider = "shm"};
  config.dispatcher.name = "proxy";
  config.chaos.seed = 7;
  CHECK(canonical_lines(config, FieldSet::method) ==
        "ranks_per_node=0\ngrpo.micro_batch_tokens=2048\nschedule=colocated\nrollout.kv_cache_bytes=0\n"
        "dispatcher=proxy\n"
        "dispatcher.tokens_max=0\ndispatcher.dedup=rank\ndispatcher.prefix_rows=64\n"
        "transport=libfabric\ntransport.provider=shm\ntransport.rails=0\ntransport.progress=poll\n"
        "chaos.seed=7\nchaos.late_start_ms=0\nchaos.stop_rank=-1\nchaos.stop_after_puts=0\n"
        "compute=cpu\ncompute.threads=0\n");
}

TEST_CASE("ten thousand points are all different", "[config]") {
  const auto points = expand(load("grpo: {prompts: 1-100+1, group_size: 2-101+1}\n"));
  CHECK(points.size() == 10000);
  std::set<std::string> lines;
  for (const Point& point : points) lines.insert(all_lines(point));
  CHECK(lines.size() == 10000);
}
