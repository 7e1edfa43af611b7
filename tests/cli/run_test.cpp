#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_binary.hpp"
#include "support/catch.hpp"

using namespace mrb::test;
using Json = nlohmann::json;

namespace {

// One rank, loopback, steps of milliseconds.
const std::string kTinyRun =
    "--model-layers 1 --model-hidden 16 --model-heads 2 --model-kv-heads 1 --model-head-dim 8 "
    "--model-experts 4 "
    "--model-expert-ff 16 --model-vocab 16 --grpo-prompts 2 --grpo-group-size 2 --grpo-prompt-tokens 3 "
    "--grpo-response-tokens-min 2 --grpo-response-tokens-max 2 --measure-warmup-steps 0 "
    "--measure-steps 1 --compute-threads 1 ";

// The one run's folder in `results`.
std::string only_folder(const std::string& results) {
  REQUIRE(std::filesystem::exists(results));
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(results)) {
    CHECK(found.empty());
    found = entry.path().string();
  }
  return found;
}

}  // namespace

TEST_CASE("a whole experiment on one rank leaves a folder that can be run again", "[cli]") {
  const TemporaryFolder folder;
  const std::string results = folder.path() + "/results";
  const Finished finished =
      run_binary("run " + kTinyRun + "--measure-blocks 2 --dispatcher alltoall,rank_dedup --output-dir " + results);
  INFO(finished.err);
  REQUIRE(finished.exit_code == 0);
  CHECK_THAT(finished.out,
             contains("loopback (memcpy)") && contains("work equivalence: 2 of 2") && contains("status: ok"));
  CHECK(finished.out.find("launch ") == std::string::npos);  // progress is no result
  CHECK_THAT(finished.err, contains("launch   8 of 8"));

  const std::string run = only_folder(results);
  const Json json = Json::parse(text_of(run + "/result.json"));
  CHECK(json["run"]["status"] == "ok");
  CHECK(json["run"]["ended"].is_string());
  REQUIRE(json["cells"].size() == 2);
  CHECK(json["cells"][1]["launches"].size() == 4);

  const Finished again = run_binary("run " + run + "/config.yaml --output-dir " + folder.path() + "/again");
  CHECK(again.exit_code == 0);
  const Json second = Json::parse(text_of(only_folder(folder.path() + "/again") + "/result.json"));
  for (std::size_t i = 0; i < 2; ++i) {  // the same work, number for number
    const Json& one = json["cells"][i]["launches"][0]["steps"][0];
    const Json& other = second["cells"][i]["launches"][0]["steps"][0];
    CHECK(one["loss"] == other["loss"]);
    CHECK(one["token_checksum"] == other["token_checksum"]);
  }
  CHECK(run_binary("run --config " + run + "/tuned.yaml --output-dir " + folder.path() + "/tuned").exit_code == 0);
}

TEST_CASE("a folder that cannot be made is found before anything runs", "[cli]") {
  const TemporaryFile file("in the way");
  const Finished finished = run_binary("run " + kTinyRun + "--output-dir " + file.path());
  CHECK(finished.exit_code == 5);
  CHECK_THAT(finished.err, contains("cannot be made") && contains("fix: set output.dir") && !contains("rehearsed"));
}

TEST_CASE("a dry run prints the plan and makes nothing", "[cli]") {
  const TemporaryFolder folder;
  const Finished finished =
      run_binary("run --dry-run --dispatcher alltoall,reference --ranks 2 --transport loopback,mpi --output-dir " +
                 folder.path() + "/results");
  if (finished.exit_code == 2) {  // a build without MPI refuses the transport by name
    CHECK_THAT(finished.err, contains("-DMRB_WITH_MPI=ON"));
    return;
  }
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, contains("skipped: transport 'loopback' stays within one process, and there are 2 ranks"));
  CHECK_THAT(finished.out, contains("skipped: dispatcher 'reference' works on at most 1 rank, and there are 2"));
  CHECK_THAT(finished.out, contains("block 1: [alltoall mpi] [alltoall mpi]\n"));
  CHECK_THAT(finished.out, contains("starts mpirun -np 2 "));
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/results"));
}

TEST_CASE("a run that is told to stop keeps what it has", "[cli]") {
  const TemporaryFolder folder;
  const std::string results = folder.path() + "/results";
  // `timeout` tells it to stop after a second; 10000 blocks would take hours.
  const Finished finished = run_binary("run " + kTinyRun + "--measure-blocks 10000 --output-dir " + results,
                                       "timeout --preserve-status -s TERM 1");
  CHECK(finished.exit_code == 143);
  CHECK_THAT(finished.out, contains("status: interrupted"));
  const Json json = Json::parse(text_of(only_folder(results) + "/result.json"));
  CHECK(json["run"]["status"] == "interrupted");
}
