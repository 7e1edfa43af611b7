#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/run_binary.hpp"
#include "support/catch.hpp"

using namespace mrb::test;
using Json = nlohmann::json;

namespace {

// One rank, loopback, steps of milliseconds; the baseline sleeps in each, and so does one that does not end.
const std::string kSpace =
    "--set model.layers=1 --set model.hidden=16 --set model.heads=2 --set model.kv_heads=1 --set model.head_dim=8 "
    "--set model.experts=4 --set model.expert_ff=16 --set model.vocab=16 --set grpo.prompts=2 --set grpo.group_size=2 "
    "--set grpo.prompt_tokens=3 --set grpo.response_tokens_min=2 --set grpo.response_tokens_max=2 "
    "--set measure.warmup_steps=0 --set measure.steps=1 --set compute.threads=1 "
    "--set grpo.reward_delay_ms=20,0,600000 ";

std::string tune_session_in(const std::string& results) {
  for (const auto& entry : std::filesystem::directory_iterator(results)) {
    if (entry.is_directory()) return entry.path().string();
  }
  return "";
}

std::vector<Json> lines_of(const std::string& journal) {
  std::vector<Json> lines;
  std::istringstream text(text_of(journal));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("tune, killed and resumed, excludes what hangs, finds what is faster and says by how much", "[cli]") {
  const TemporaryFolder folder;
  const std::string arguments = kSpace + "--launch-limit-s 4 --budget '11 launches' --output-dir " + folder.path();
  // Not by run_binary(), whose `timeout` would be killed in the program's place.
  CHECK(std::system(("timeout -s KILL 1.5 " MRB_BINARY " tune " + arguments + " >/dev/null 2>&1").c_str()) != 0);
  const std::string session = tune_session_in(folder.path()), journal = session + "/journal.jsonl";
  const std::size_t before = lines_of(journal).size();
  CHECK(before >= 1);

  const Finished finished = run_binary("tune --resume " + session);
  INFO(finished.out << finished.err);
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, contains("answer: ") && contains("alltoall loopback: +") && contains("95% interval"));
  CHECK_THAT(finished.out, contains("hung: it took longer than 4 s"));

  // No measurement is lost, and none is made twice.
  const auto lines = lines_of(journal);
  CHECK(lines.size() > before);
  std::set<std::string> once;
  for (std::size_t i = 1; i < lines.size(); ++i)
    once.insert(lines[i]["hash"].get<std::string>() + " in block " + lines[i]["block"].dump());
  CHECK(once.size() == lines.size() - 1);

  const Json trail = Json::parse(text_of(session + "/tune.json"));
  CHECK(trail["status"] == "over");
  CHECK(trail["answer"]["end"] == "confirmed");
  CHECK(trail["answer"]["gain_low"] > 1);
  CHECK(trail["budget"]["used_launches"] == lines.size() - 1);
  CHECK_THAT(text_of(session + "/mpijob_patch.yaml"), contains("data:\n  config.yaml: |\n    # Chosen by"));

  // The journal alone leads to the same answer, and the winner runs.
  CHECK(run_binary("tune --replay " + journal).out == finished.out);
  const Finished used = run_binary("run " + session + "/tuned.yaml --dry-run");
  CHECK(used.exit_code == 0);
  CHECK_THAT(text_of(session + "/tuned.yaml"), !contains("reward_delay_ms: 2") && contains("workload "));
  CHECK_THAT(run_binary("tune --resume " + session + " --seed 3").err, contains("fix: leave them out, or tune anew"));
}

TEST_CASE("tune shows its space and refuses what is no question for it", "[cli]") {
  const Finished space =
      run_binary("tune --ranks 4 --dispatcher alltoall,rank_dedup --transport mpi,loopback --list-space");
  CHECK(space.exit_code == 0);
  CHECK_THAT(space.out, contains("2 can run here, 2 cannot") && contains("baseline: alltoall mpi"));
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Finished finished = run_binary("tune " + arguments);
    CHECK(finished.exit_code == 2);
    CHECK_THAT(finished.err, contains(words) && contains("fix: "));
  };
  refused("", "no setting has more than one value");
  refused("--dispatcher alltoall,rank_dedup --grpo-prompts 8,16", "may differ with what is computed");
  refused("--dispatcher alltoall,rank_dedup --budget soon", "--budget: is 'soon'");
  refused("--dispatcher alltoall,rank_dedup --tie 2", "--tie");
  CHECK(run_binary("tune --resume nowhere").exit_code == 5);
}
