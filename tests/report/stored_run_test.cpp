#include "report/stored_run.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "report/json.hpp"
#include "report/made_up_run.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using namespace mrb::test;
using Json = nlohmann::json;

namespace {

std::string made_up_text() {
  return result_json(made_up_run(), made_up_record());
}

std::string error_of(const std::string& text) {
  try {
    parse_stored_run(text, "a.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a result that was written is read back with its launches", "[report]") {
  const StoredRun run = parse_stored_run(made_up_text(), "a.json");
  CHECK(run.id == "20261201T101500Z-ab12cd");
  CHECK(run.status == "ok");
  CHECK(run.ranks == 2);
  CHECK(run.fingerprint.at("processor") == "Some CPU");
  CHECK(run.libraries.at("mpi") == "Open MPI v4.1.4");
  REQUIRE(run.cells.size() == 3);
  CHECK(run.cells[0].is_baseline);
  CHECK(run.cells[1].params.at("dispatcher") == "rank_dedup");
  REQUIRE(run.cells[1].launches.size() == 6);
  const StoredLaunch& launch = run.cells[1].launches[5];
  CHECK(launch.provider == "shm");
  CHECK(launch.steps[1].phases.at("decode").ns_sum == 875'000'000);
  CHECK(tokens_per_s(launch) == 2000);  // 1000 tokens in half a second; the warm-up of 77 s does not count
  CHECK(step_ms_p99(launch) == 500);
}

TEST_CASE("all that is wrong with a result is said in one error, each with its place", "[report]") {
  Json json = Json::parse(made_up_text());
  json["run"]["id"] = 7;
  json["cells"][1]["launches"][2]["steps"][0].erase("wall_ns");
  json["cells"][1]["launches"][3]["steps"][1]["wall_ns"] = -1;
  json["cells"][2]["id"] = json["cells"][0]["id"];
  const std::string words = error_of(json.dump());
  CHECK_THAT(words, contains("run.id: a text is needed, not 7"));
  CHECK_THAT(words, contains("cells[1].launches[2].steps[0].wall_ns: is missing"));
  CHECK_THAT(words, contains("cells[1].launches[3].steps[1].wall_ns: a number of at least 0 is needed, not -1"));
  CHECK_THAT(words, contains("cells[2].id: 'alltoall-id' is there twice"));
  CHECK_THAT(words, contains("fix: give the result.json that a run has written"));
}

TEST_CASE("what is no result is refused, whatever it is", "[report]") {
  for (const char* text :
       {"", "null", "[]", "{}", "7", "{\"schema_version\": \"1\"}", "\xff\xfe", "{\"a\":", "{\"schema_version\": 1}",
        "{\"schema_version\": 1, \"cells\": {}, \"run\": [], \"tool\": 1e999}"}) {
    INFO(text);
    CHECK_THAT(error_of(text), contains("'a.json' is not a result of this program"));
  }
  CHECK_THAT(error_of(std::string(2'000'000, '[')), contains("it is not JSON, or was cut off"));
  const std::string whole = made_up_text();
  for (std::size_t length = 1; length < whole.size() - 2; length += 997)
    CHECK(!error_of(whole.substr(0, length)).empty());
}

TEST_CASE("a result of a later schema asks for a later program", "[report]") {
  Json json = Json::parse(made_up_text());
  json["schema_version"] = kResultSchemaVersion + 1;
  try {
    parse_stored_run(json.dump(), "a.json");
    FAIL("it was read");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::not_comparable);
    CHECK_THAT(error.what(), contains("fix: use the version of moe-rl-bench that wrote it, or a later one"));
  }
}

TEST_CASE("a run is found by its file, its folder, or its id below the results", "[report]") {
  const TemporaryFolder results;
  std::filesystem::create_directory(results.path() + "/one");
  std::ofstream(results.path() + "/one/result.json") << made_up_text();
  for (const std::string& name : {results.path() + "/one/result.json", results.path() + "/one", std::string("one")})
    CHECK(read_stored_run(name, results.path()).cells.size() == 3);
  CHECK_THROWS_WITH(read_stored_run("two", results.path()), contains("there is no result 'two'") && contains("fix: "));
}
