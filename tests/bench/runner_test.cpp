#include "bench/runner.hpp"

#include <algorithm>

#include "bench/plan.hpp"
#include "support/catch.hpp"
#include "support/fake_clock.hpp"
#include "support/threaded_ranks.hpp"

using namespace mrb;
using mrb::test::contains;

namespace {

// Whole experiments that take milliseconds: one layer, two experts, answers of two tokens.
Settings tiny_settings(std::vector<std::string> more) {
  SettingsSources sources;
  sources.sets = {"model.layers=1",
                  "model.hidden=16",
                  "model.heads=2",
                  "model.kv_heads=1",
                  "model.head_dim=8",
                  "model.experts=2",
                  "model.top_k=1",
                  "model.expert_ff=16",
                  "model.vocab=16",
                  "grpo.prompts=2",
                  "grpo.group_size=2",
                  "grpo.prompt_tokens=3",
                  "grpo.response_tokens_min=2",
                  "grpo.response_tokens_max=2",
                  "transport=loopback",
                  "measure.blocks=2",
                  "measure.warmup_steps=1",
                  "measure.steps=2"};
  sources.sets.insert(sources.sets.end(), more.begin(), more.end());
  return load_settings(sources);
}

struct Watched {
  RunRecord record;
  std::vector<RunRecord> saved;
  std::vector<std::string> lines;
};

// Runs on one rank; every reading of the clock moves it by `tick_ns`. `interrupted` counts how often it was asked.
Watched run_alone(const Plan& plan, std::int64_t tick_ns = 1000, const std::function<bool(int)>& interrupted = {}) {
  const auto bootstrap = make_bootstrap("solo", {});
  const test::FakeClock clock(tick_ns);
  Watched watched;
  int asked = 0;
  const RunnerHooks hooks{.interrupted = [&] { return interrupted && interrupted(asked++); },
                          .save = [&](const RunRecord& record) { watched.saved.push_back(record); },
                          .progress = [&](const std::string& line) { watched.lines.push_back(line); }};
  watched.record = run_plan(plan, {*bootstrap, clock, 1}, hooks);
  return watched;
}

}  // namespace

TEST_CASE("a run launches every variant twice in each block", "[bench]") {
  const Watched watched = run_alone(make_plan(tiny_settings({"dispatcher=reference,alltoall"}), {}));
  CHECK(watched.record.status == "ok");
  CHECK(watched.record.launches_done == 8);
  CHECK(watched.record.blocks_done == 2);
  for (const Result& result : watched.record.results) {
    CHECK(result.status == ResultStatus::done);
    REQUIRE(result.launches.size() == 4);
    CHECK(result.launches[0].block == 0);
    CHECK(result.launches[3].block == 1);
    CHECK(result.launches[0].transport == "loopback");
  }
}

TEST_CASE("steps are counted, and their time adds up", "[bench]") {
  const Watched watched = run_alone(make_plan(tiny_settings({}), {}));
  const LaunchSample& launch = watched.record.results[0].launches[0];
  REQUIRE(launch.steps.size() == 3);
  CHECK(launch.steps[0].warmup);
  CHECK_FALSE(launch.steps[1].warmup);
  for (const StepSample& step : launch.steps) {
    CHECK(step.prompt_tokens == 6);    // 2 prompts of 3, once per group
    CHECK(step.response_tokens >= 4);  // 4 answers of 1 token, or of 2 where the first is not the end
    CHECK(step.response_tokens <= 8);
    CHECK(step.trained_tokens == step.response_tokens);
    std::int64_t sum_ns = 0;
    for (const auto& [name, phase] : step.phases) {
      CHECK(phase.ns_min == phase.ns_max);  // one rank
      sum_ns += phase.ns_sum;
    }
    // The clock ticks once per reading, and most readings are within phases.
    CHECK(step.wall_ns >= sum_ns);
    CHECK(step.unaccounted_ratio_max ==
          test::Approx(static_cast<double>(step.wall_ns - sum_ns) / static_cast<double>(step.wall_ns)));
    CHECK(step.dispatch_wire_bytes == 0);  // nobody to send to
  }
}

TEST_CASE("every launch of a workload computes the same", "[bench]") {
  const Watched watched = run_alone(make_plan(tiny_settings({"dispatcher=reference,alltoall,rank_dedup"}), {}));
  for (const Result& result : watched.record.results) {
    CHECK(result.same_work);
    CHECK(result.same_tokens);
    CHECK(result.loss_difference_max == 0);  // one rank adds up in one order
  }
}

TEST_CASE("results are saved after every launch", "[bench]") {
  const Watched watched = run_alone(make_plan(tiny_settings({}), {}));
  // After the rehearsal, after each of 4 launches, and at the end.
  REQUIRE(watched.saved.size() == 6);
  CHECK(watched.saved[0].results[0].status == ResultStatus::pending);
  for (int launches = 1; launches <= 4; ++launches) {
    CHECK(watched.saved[static_cast<std::size_t>(launches)].results[0].launches.size() ==
          static_cast<std::size_t>(launches));
    CHECK(watched.saved[static_cast<std::size_t>(launches)].status == "running");
  }
  CHECK(watched.saved[5].status == "ok");
  CHECK_THAT(watched.lines[0], contains("rehearsed"));
  CHECK_THAT(watched.lines[4], contains("launch   4 of 4  block 2"));
}

TEST_CASE("a variant that cannot be set up fails alone", "[bench]") {
  const Watched watched = run_alone(make_plan(tiny_settings({"compute=cpu,abacus"}), {}));
  CHECK(watched.record.status == "partial");
  CHECK(watched.record.results[0].status == ResultStatus::done);
  CHECK(watched.record.results[1].status == ResultStatus::failed);
  CHECK_THAT(watched.record.results[1].reason, contains("'abacus'") && contains("fix: use one of: cpu"));
  CHECK(watched.record.launches_done == 4);
  CHECK(exit_code_of(watched.record) == 7);
}

TEST_CASE("a run in which everything fails says so", "[bench]") {
  const Watched watched = run_alone(make_plan(tiny_settings({"compute=abacus"}), {}));
  CHECK(watched.record.status == "failed");
  CHECK(exit_code_of(watched.record) == 5);
}

TEST_CASE("an interrupted run keeps its whole launches and no part of one", "[bench]") {
  // Asked before each step: 1 step and once more in the rehearsal, 3 in the first launch; then in the middle of the next.
  const Watched watched = run_alone(make_plan(tiny_settings({}), {}), 1000, [](int asked) { return asked >= 6; });
  CHECK(watched.record.status == "interrupted");
  CHECK(watched.record.launches_done == 1);
  CHECK(watched.record.blocks_done == 0);
  REQUIRE(watched.record.results[0].launches.size() == 1);
  CHECK(watched.record.results[0].launches[0].steps.size() == 3);
  CHECK(watched.saved.back().status == "interrupted");
}

TEST_CASE("an interrupt in the rehearsal measures nothing", "[bench]") {
  const Watched watched = run_alone(make_plan(tiny_settings({}), {}), 1000, [](int) { return true; });
  CHECK(watched.record.status == "interrupted");
  CHECK(watched.record.results[0].status == ResultStatus::pending);
}

TEST_CASE("no block begins after the time limit", "[bench]") {
  // A clock that moves a second with each reading passes an hour within the first block.
  const Plan plan = make_plan(tiny_settings({"measure.blocks=5", "measure.time_limit_s=900"}), {});
  const Watched watched = run_alone(plan, 1'000'000'000);
  CHECK(watched.record.blocks_done >= 1);
  CHECK(watched.record.blocks_done < 5);
  CHECK(watched.record.status == "ok");
  REQUIRE(watched.record.notes.size() == 1);
  CHECK_THAT(watched.record.notes[0],
             contains("the time limit of 900 s ended the run after") && contains("of 5 blocks"));
}

TEST_CASE("of several ranks the first has the samples, with the slowest and the fastest of each phase", "[bench]") {
  // As threads of one process, which loopback can connect; the plan would skip it for processes.
  Plan plan = make_plan(tiny_settings({"dispatcher=alltoall,rank_dedup"}), {});
  for (Experiment& experiment : plan.experiments) experiment.config.ranks = 2;
  std::vector<RunRecord> records(2);
  std::vector<int> saves(2);
  test::run_ranks(2, [&](Bootstrap& bootstrap) {
    const auto rank = static_cast<std::size_t>(bootstrap.rank());
    const SteadyClock clock;
    const RunnerHooks hooks{.interrupted = [] { return false; },
                            .save = [&](const RunRecord&) { ++saves[rank]; },
                            .progress = [](const std::string&) {}};
    records[rank] = run_plan(plan, {bootstrap, clock, 1}, hooks);
  });
  CHECK(saves[1] == 0);
  CHECK(records[1].results[0].launches.empty());
  CHECK(records[1].status == "ok");
  for (const Result& result : records[0].results) {
    CHECK(result.same_work);
    REQUIRE(result.launches.size() == 4);
    const StepSample& step = result.launches[0].steps[1];
    CHECK(step.dispatch_logical_bytes > 0);
    CHECK(step.dispatch_wire_bytes >= step.dispatch_logical_bytes);  // one expert a token: nothing to save
    for (const auto& [name, phase] : step.phases) {
      CHECK(phase.ns_min <= phase.ns_max);
      CHECK(phase.ns_max <= step.wall_ns);
      CHECK(phase.ns_sum <= 2 * phase.ns_max);
    }
  }
}
