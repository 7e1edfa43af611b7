#include "report/side_record.hpp"

#include "base/error.hpp"
#include "report/json.hpp"
#include "report/made_up_run.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

// A short run of one variant, two launches.
std::string short_run(std::int64_t first_ms, std::int64_t second_ms, const std::string& dispatcher = "alltoall") {
  RunRecord record{.results = {made_up_result(dispatcher, true, {first_ms, second_ms})}, .status = "ok"};
  compare_results(record.results);
  return result_json(made_up_run(), record);
}

}  // namespace

TEST_CASE("many short runs become the launches of one", "[report]") {
  SideRecord side("s", "before");
  side.add(short_run(1000, 3000));
  side.add(short_run(500, 500));
  side.add(short_run(1000, 1000));
  const StoredRun run = side.run();
  CHECK(run.id == "s-before");
  CHECK(run.session == "s");
  CHECK(run.status == "interrupted");  // until it is complete
  REQUIRE(run.cells.size() == 1);
  REQUIRE(run.cells[0].launches.size() == 3);
  CHECK(tokens_per_s(run.cells[0].launches[0]) == 500);  // 2 x 1000 tokens in 1 s + 3 s
  CHECK(tokens_per_s(run.cells[0].launches[1]) == 2000);
  CHECK(run.cells[0].launches[2].index == 2);
  CHECK(run.cells[0].launches[2].block == 1);  // a block has two pairs
  side.set_complete();
  CHECK(side.run().status == "ok");
}

TEST_CASE("a launch that measured nothing, or something else, is refused", "[report]") {
  SideRecord side("s", "before");
  side.add(short_run(1000, 1000));
  CHECK_THROWS_WITH(side.add(short_run(1000, 1000, "rank_dedup")), contains("do not change the configuration"));
  RunRecord failed{.results = {made_up_result("alltoall", true, {1000, 1000})}, .status = "failed"};
  failed.results[0].status = ResultStatus::failed;
  failed.results[0].reason = "no memory";
  CHECK_THROWS_WITH(side.add(result_json(made_up_run(), failed)),
                    contains("variant alltoall was not measured: failed no memory"));
  CHECK_THROWS_AS(side.add("{"), Error);
  CHECK(side.run().cells[0].launches.size() == 1);
}

TEST_CASE("one launch with other work marks the whole side", "[report]") {
  SideRecord side("s", "after");
  RunRecord record{.results = {made_up_result("alltoall", true, {1000, 1000})}, .status = "ok"};
  compare_results(record.results);
  record.results[0].same_work = false;
  side.add(short_run(1000, 1000));
  side.add(result_json(made_up_run(), record));
  CHECK_FALSE(side.run().cells[0].same_work);
}
