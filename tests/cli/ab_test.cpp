#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/run_binary.hpp"
#include "support/catch.hpp"

using namespace mrb::test;
using Json = nlohmann::json;

namespace {

// One rank, loopback, steps of milliseconds.
const std::string kTinyAb =
    "--set model.layers=1 --set model.hidden=16 --set model.heads=2 --set model.kv_heads=1 --set model.head_dim=8 "
    "--set model.experts=4 --set model.expert_ff=16 --set model.vocab=16 --set grpo.prompts=2 --set grpo.group_size=2 "
    "--set grpo.prompt_tokens=3 --set grpo.response_tokens_min=2 --set grpo.response_tokens_max=2 "
    "--set measure.warmup_steps=0 --set measure.steps=2 --set compute.threads=1 ";

std::string session_in(const std::string& results) {
  for (const auto& entry : std::filesystem::directory_iterator(results)) {
    if (entry.is_directory()) return entry.path().string();
  }
  return "";
}

}  // namespace

TEST_CASE("a sleep in one phase fails, and the session keeps every launch of both sides", "[cli]") {
  const TemporaryFolder folder;
  const Finished finished =
      run_binary("ab " + kTinyAb + "--set-after grpo.reward_delay_ms=200 --pairs 4 --results-dir " + folder.path());
  INFO(finished.err);
  CHECK(finished.exit_code == 1);
  CHECK_THAT(finished.out, contains("result: FAIL (2 FAIL") && contains("# n: pairs"));
  CHECK_THAT(finished.err, contains("launch   8 of 8"));
  const std::string session = session_in(folder.path());
  const Json before = Json::parse(text_of(session + "/before.json"));
  CHECK(before["run"]["status"] == "ok");
  CHECK(before["cells"][0]["launches"].size() == 4);
  CHECK(Json::parse(text_of(session + "/comparison.json"))["verdict"] == "FAIL");
  // The two sides are results like any other.
  const Finished again = run_binary("compare " + session + "/before.json " + session + "/after.json");
  CHECK(again.exit_code == 1);
  CHECK_THAT(again.out, contains("# n: pairs"));
}

TEST_CASE("a launch that fails is told with its last words and its exit code", "[cli]") {
  const TemporaryFolder folder;
  const Finished finished = run_binary("ab --before-binary /bin/false --aa --pairs 4 --results-dir " + folder.path());
  CHECK(finished.exit_code == 70);
  CHECK_THAT(finished.err, contains("launch 0 of side ") && contains("exit code 1") && contains("fix: see "));
}

TEST_CASE("sides that make no comparison are refused", "[cli]") {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Finished finished = run_binary("ab " + arguments);
    CHECK(finished.exit_code == 2);
    CHECK_THAT(finished.err, contains(words) && contains("fix: "));
  };
  refused("", "nothing to compare with");
  refused("--aa --set-after seed=2", "there is a second side");
  refused("--aa --pairs 8,6", "are not even numbers that rise");
  refused("--aa --set grpo.promts=2", "grpo.prompts");
}

TEST_CASE("an interrupted comparison keeps what it has", "[cli]") {
  const TemporaryFolder folder;
  const Finished finished = run_binary("ab " + kTinyAb + "--aa --pairs 1000 --results-dir " + folder.path(),
                                       "timeout --preserve-status -s TERM 2");
  CHECK(finished.exit_code == 143);
  CHECK_THAT(finished.out, contains("interrupted after"));
  CHECK(Json::parse(text_of(session_in(folder.path()) + "/before.json"))["run"]["status"] == "interrupted");
}
