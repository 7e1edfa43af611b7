#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "report/baseline_history.hpp"
#include "report/made_up_run.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

// A result whose launches take `slower` times as long as the made-up ones.
std::string result_of(const std::string& id, double slower = 1) {
  RunRecord record = made_up_record();
  int launch_number = 0;
  for (Result& result : record.results) {
    for (LaunchSample& launch : result.launches) {
      const double wobble = 1 + 0.002 * (launch_number++ % 5);
      for (StepSample& step : launch.steps)
        step.wall_ns = static_cast<std::int64_t>(static_cast<double>(step.wall_ns) * slower * wobble);
    }
  }
  RunInfo info = made_up_run();
  info.id = id;
  return result_json(info, record);
}

std::string id_of(int day) {
  return fmt::format("202612{:02}T101500Z-ab12cd", day);
}

StoredRun add(const BaselineStore& store, const std::string& id, double slower = 1) {
  const std::string text = result_of(id, slower);
  const StoredRun run = parse_stored_run(text, id);
  store.add(run, text);
  return run;
}

}  // namespace

TEST_CASE("runs of the same machine and variants are one history, whose baseline is the last one promoted",
          "[report]") {
  const TemporaryFolder folder;
  const BaselineStore store(folder.path());
  const StoredRun first = add(store, id_of(1)), second = add(store, id_of(2));
  CHECK(baseline_key(first) == baseline_key(second));
  BaselineSeries series = store.series_with(id_of(2));
  CHECK(series.run_ids == std::vector<std::string>{id_of(1), id_of(2)});
  CHECK_FALSE(series.baseline);
  store.promote(series, {id_of(1), "2026-12-01T10:15:00Z", "a", "the first"});
  store.promote(store.series(series.key), {id_of(2), "2026-12-02T10:15:00Z", "b", "a \"faster\"\nkernel"});
  series = store.series(series.key);
  REQUIRE(series.baseline);
  CHECK(series.baseline->run_id == id_of(2));
  CHECK(series.promotions.size() == 2);
  CHECK(series.promotions[1].why == "a \"faster\"\nkernel");
  store.remove(series, id_of(2));
  CHECK_FALSE(store.series(series.key).baseline);
  CHECK_THROWS_WITH(add(store, id_of(1)), contains("is there already"));
  CHECK_THROWS_WITH(store.series_with("nothing"), contains("no run and no key 'nothing'") && contains(series.key));
}

TEST_CASE("a run that failed, was cut short or did other work is no baseline", "[report]") {
  StoredRun run = made_up_stored_run();
  CHECK_NOTHROW(refuse_as_baseline(run));
  run.status = "interrupted";
  run.cells[1].status = "failed";
  CHECK_THROWS_WITH(refuse_as_baseline(run), contains("'interrupted', not 'ok'") && contains("rank_dedup is 'failed'"));
  run = made_up_stored_run();
  run.cells[1].same_work = false;
  CHECK_THROWS_WITH(refuse_as_baseline(run), contains("did other work"));
  run = made_up_stored_run();
  run.taints = {"warn: clocks"};
  CHECK_THROWS_WITH(refuse_as_baseline(run), contains("warn: clocks"));
}

TEST_CASE("an id that would leave the folder is refused", "[report]") {
  const TemporaryFolder folder;
  const BaselineStore store(folder.path());
  for (const char* id : {"../x", "a/b", "", ".hidden"}) {
    StoredRun run = made_up_stored_run();
    run.id = id;
    CHECK_THROWS_WITH(store.add(run, "{}"), contains("cannot be the name of a file"));
  }
}

TEST_CASE("a change to a slower level is told of with the runs around it, and not when it was promoted", "[report]") {
  const TemporaryFolder folder;
  const BaselineStore store(folder.path());
  for (int day = 1; day <= 24; ++day) add(store, id_of(day), (day <= 12 ? 1.0 : 1.1) * (1 + 0.001 * (day % 3)));
  BaselineSeries series = store.series_with(id_of(1));
  store.promote(series, {id_of(1), "2026-12-01T10:15:00Z", "a", "the first"});
  const BaselineHistory history = history_of(store, store.series(series.key), 50, {});
  CHECK(became_slower(history));
  CHECK_THAT(history_text(history),
             contains("slower: alltoall, tokens/s: -") && contains("between run 12 (") && contains("and run 13 ("));
  store.promote(store.series(series.key), {id_of(14), "2026-12-14T10:15:00Z", "a", "accepted"});
  const BaselineHistory accepted = history_of(store, store.series(series.key), 50, {});
  CHECK_FALSE(became_slower(accepted));
  CHECK_THAT(history_text(accepted), contains(", before the baseline"));
}

TEST_CASE("a run is compared with the baseline of its machine and variants", "[report]") {
  const TemporaryFolder folder;
  const BaselineStore store(folder.path());
  const StoredRun first = add(store, id_of(1));
  const StoredRun slow = parse_stored_run(result_of(id_of(3), 1.3), "slow");
  CHECK_THROWS_WITH(compare_with_baseline(store, slow, {}), contains("none of them promoted"));
  store.promote(store.series(baseline_key(first)), {id_of(1), "2026-12-01T10:15:00Z", "a", "the first"});
  CHECK(compare_with_baseline(store, slow, {}).verdict == GateVerdict::fail);
  StoredRun elsewhere = slow;
  elsewhere.fingerprint["processor"] = "Another";
  CHECK_THROWS_WITH(compare_with_baseline(store, elsewhere, {}), contains("another machine; processor: 'Some CPU'"));
}
