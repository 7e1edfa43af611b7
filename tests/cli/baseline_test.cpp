#include <filesystem>
#include <string>

#include "cli/run_binary.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb::test;

TEST_CASE("a run is saved, becomes the baseline, and later runs are compared with it", "[cli]") {
  const TemporaryFolder folder;
  const std::string where = " --baseline-dir " + folder.path() + "/baselines";
  const std::string results = folder.path() + "/results";
  const Finished ran = run_binary(
      "run --ranks 1 --transport loopback --model-layers 1 --grpo-prompts 2 --set "
      "grpo.group_size=2 --measure-blocks 2 --measure-steps 2 --output-dir " +
      results);
  REQUIRE(ran.exit_code == 0);
  const std::string run = std::filesystem::directory_iterator(results)->path().string();
  const std::string id = std::filesystem::path(run).filename().string();

  CHECK_THAT(run_binary("compare " + run + where).err, contains("there is no baseline") && contains("baseline save"));
  const Finished saved = run_binary("baseline save " + run + where);
  CHECK(saved.exit_code == 0);
  CHECK_THAT(saved.out, contains("saved " + id) && contains("it is the baseline"));
  CHECK(run_binary("baseline save " + run + where).exit_code == 2);  // once
  CHECK_THAT(run_binary("baseline list" + where).out, contains(id));
  CHECK_THAT(
      run_binary("baseline show " + id + where).out,
      contains("the first run of this machine and these variants") && contains("no change can be shown of 1 runs"));
  CHECK_THAT(run_binary("compare " + run + where).out, contains("result: "));
  CHECK_THAT(run_binary("baseline promote " + id + where).err, contains("--why"));
  CHECK(run_binary("baseline promote " + id + " --why 'a new driver'" + where).exit_code == 0);
  CHECK_THAT(run_binary("baseline show " + id + where).out, contains(": a new driver"));
  CHECK_THAT(run_binary("baseline rm " + id + where).out, contains("promote another"));
  CHECK(run_binary("baseline show " + id + where).exit_code == 2);
}
