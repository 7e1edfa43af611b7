#include "report/json.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "report/made_up_run.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;
using Json = nlohmann::json;

TEST_CASE("result.json says who ran what, where and when", "[report]") {
  const Json json = Json::parse(result_json(made_up_run(), made_up_record()));
  CHECK(json["schema_version"] == 1);
  CHECK(json["tool"]["commit"] == "1a2b3c4");
  CHECK(json["run"]["id"] == "20261201T101500Z-ab12cd");
  CHECK(json["run"]["argv"] == Json({"run", "--ranks", "2"}));
  CHECK(json["run"]["seed"] == 1);
  CHECK(json["run"]["status"] == "ok");
  CHECK(json["run"]["ended"].is_null());
  CHECK(json["config"]["dispatcher"]["values"] == Json({"alltoall", "rank_dedup"}));
  CHECK(json["config"]["dispatcher"]["origin"] == "--set dispatcher");
  CHECK(json["ranks"][1] == Json({{"rank", 1}, {"host", "node-a"}, {"cpus", "0-1"}, {"threads", 1}}));
  CHECK(json["environment"]["nodes"][0]["processor"] == "Some CPU");
  CHECK(json["environment"]["libraries"][0]["loaded"] == "Open MPI v4.1.4");
  CHECK(json["environment"]["libraries"][1]["missing_feature"] == "NCCL");
  CHECK(json["environment"]["env"]["FI_PROVIDER"] == "shm");
}

TEST_CASE("a cell has every raw sample, its summary and its comparison", "[report]") {
  const Json json = Json::parse(result_json(made_up_run(), made_up_record()));
  const Json& cell = json["cells"][1];
  CHECK(cell["label"] == "rank_dedup");
  CHECK(cell["status"] == "done");
  CHECK(cell["source"] == "measured");
  CHECK(cell["params"]["dispatcher"] == "rank_dedup");
  REQUIRE(cell["launches"].size() == 6);
  CHECK(cell["launches"][5]["block"] == 2);
  CHECK(cell["launches"][5]["transport"] == "libfabric");
  CHECK(cell["launches"][5]["provider"] == "shm");
  const Json& step = cell["launches"][0]["steps"][1];
  CHECK(step["wall_ns"] == 500'000'000);
  CHECK(step["phases"]["decode"] == Json({{"ns_max", 500'000'000}, {"ns_min", 375'000'000}, {"ns_sum", 875'000'000}}));
  CHECK(step["dispatch_wire_bytes"] == 2 << 20);
  CHECK(step["marked"] == false);
  CHECK(cell["metrics"]["tokens_per_s"]["median"] == 2000);
  CHECK(cell["metrics"]["tokens_per_s"]["n"] == 6);
  CHECK(cell["comparison"]["baseline_id"] == "alltoall-id");
  CHECK(cell["comparison"]["ratio"].get<double>() == Approx(2));
  CHECK(cell["comparison"]["log_ratios"].size() == 3);
  CHECK(cell["comparison"]["verdict"] == "faster");
  CHECK(cell["correctness"]["same_work"] == true);
  CHECK_FALSE(json["cells"][0].contains("comparison"));  // the baseline itself
}

TEST_CASE("what is not a number is null", "[report]") {
  RunRecord record = made_up_record();
  record.results = {made_up_result("alltoall", true, {1000, 1000}),
                    made_up_result("rank_dedup", false, {500, 500}, std::numeric_limits<double>::quiet_NaN())};
  compare_results(record.results);
  const Json json = Json::parse(result_json(made_up_run(), record));  // a bare nan would not parse
  const Json& cell = json["cells"][1];
  CHECK(cell["launches"][0]["steps"][1]["loss"].is_null());
  CHECK(cell["correctness"]["same_work"] == false);
  CHECK(cell["comparison"]["ratio"].is_null());
  CHECK(cell["comparison"]["ci_high"].is_null());
}

TEST_CASE("a cell without numbers says why", "[report]") {
  RunRecord record = made_up_record();
  record.results[0].status = ResultStatus::pending;
  record.results[1].status = ResultStatus::failed;
  record.results[1].reason = "no provider \"efa\"\nhere";
  record.results[2].status = ResultStatus::skipped;
  record.results[2].reason = "too large";
  const Json json = Json::parse(result_json(made_up_run(), record));
  CHECK(json["cells"][0]["status"] == "pending");
  CHECK(json["cells"][1]["status"] == "failed");
  CHECK(json["cells"][1]["reason"] == "no provider \"efa\"\nhere");
  CHECK_FALSE(json["cells"][1].contains("metrics"));
  CHECK(json["cells"][2]["status"] == "skipped");
}

TEST_CASE("words of a library that are no UTF-8 do not break the file", "[report]") {
  RunRecord record = made_up_record();
  record.results[1].status = ResultStatus::failed;
  record.results[1].reason = "bad \xff byte";
  CHECK(Json::parse(result_json(made_up_run(), record))["cells"][1]["reason"].get<std::string>().starts_with("bad "));
}
