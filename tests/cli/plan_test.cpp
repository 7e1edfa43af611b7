#include <nlohmann/json.hpp>

#include <fstream>

#include "cli/run_binary.hpp"
#include "support/catch.hpp"

using namespace mrb::test;

namespace {

const std::string kData = " --data " + std::string(MRB_SOURCE_DIR) + "/configs";

Finished plan(const std::string& arguments) {
  return run_binary("plan " + arguments + kData);
}

void check_plan_refused(const std::string& arguments, const std::vector<std::string>& words) {
  INFO(arguments);
  const bool has_data = arguments.find("--data") != std::string::npos;
  const Finished finished = run_binary("plan " + arguments + (has_data ? "" : kData));
  INFO(finished.err);
  CHECK(finished.exit_code == 2);
  CHECK(finished.out.empty());
  CHECK(finished.err.starts_with("error: "));
  CHECK_THAT(finished.err, contains("fix: "));
  for (const std::string& word : words) CHECK_THAT(finished.err, contains(word));
}

}  // namespace

TEST_CASE("a plan is a table for people and JSON for machines, all of it modelled", "[cli]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/plan.json";
  const Finished finished = plan("--nodes 2,4 --micro-batch 4 --json " + path);
  INFO(finished.err);
  REQUIRE(finished.exit_code == 0);
  for (const char* words : {"everything is MODELLED", "modelled, +-", "EXTRAPOLATED", "bottleneck", "USD per million",
                            "one node more", "where the dispatcher of training flips", "what does not fit"}) {
    CHECK_THAT(finished.out, contains(words));
  }
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  CHECK(json["source"] == "modelled");
  CHECK(json["expected_error_ratio"]["rollout"].is_null());
  CHECK(json["best"]["step_s"] > 0);
  // Phases add up to the step where one waits for the other.
  for (const auto& one : json["candidates"]) {
    if (one["schedule"] != "colocated" && one["schedule"] != "disaggregated") continue;
    const double sum = one["rollout_s"].get<double>() + one["log_probs_s"].get<double>() +
                       one["train_s"].get<double>() + one["weight_sync_s"].get<double>() +
                       one["mode_switch_s"].get<double>();
    CHECK(one["step_s"].get<double>() == Approx(sum));
  }
}

TEST_CASE("validation prints every operation with its error", "[cli]") {
  const Finished finished = plan("--validate");
  REQUIRE(finished.exit_code == 0);
  for (const char* words :
       {"alltoall", "dispatch", "combine", "train_step", "weight_sync", "worst row", "right order"}) {
    CHECK_THAT(finished.out, contains(words));
  }
}

TEST_CASE("what a plan cannot answer is one error with its values", "[cli]") {
  check_plan_refused("--model gpt-9", {"'gpt-9'", "qwen3-30b-a3b"});
  check_plan_refused("--instance p9.48xlarge", {"'p9.48xlarge'", "p5en.48xlarge"});
  check_plan_refused("--schedule sometimes", {"'sometimes'", "one_step_off"});
  check_plan_refused("--nodes 0 --mean-tokens -5 --imbalance 0.5 --dispatcher magic",
                     {"--nodes", "has 0", "--mean-tokens", "is -5", "--imbalance", "'magic'", "uccl-ep"});
  check_plan_refused("--mean-tokens inf --cv nan --staleness 2147483647", {"is inf", "is nan", "has 2147483647"});
  check_plan_refused("--nodes 1 --schedule async", {"0 points", "second node"});
  check_plan_refused("--model deepseek-v3 --instance p5.48xlarge --nodes 1", {"fits nowhere", "more memory"});
  check_plan_refused("--instance p6e-gb200.36xlarge --nodes 2 --goal price",
                     {"no instance of p6e-gb200.36xlarge", "usd_per_hour"});
  check_plan_refused("--nodes 2 --data /nowhere", {"/nowhere"});
  check_plan_refused("--validate /nowhere.csv", {"/nowhere.csv"});
}

TEST_CASE("instances without a price are planned, and the price is said to be missing", "[cli]") {
  const Finished finished = plan("--instance p6e-gb200.36xlarge --nodes 2");
  REQUIRE(finished.exit_code == 0);
  CHECK_THAT(finished.out, contains("no price") && contains("p6e-gb200.36xlarge has no published price"));
}
