#include <regex>

#include "cli/run_binary.hpp"
#include "support/catch.hpp"

using namespace mrb::test;

namespace {

// Refused at once: exit code 2, nothing on stdout, one error that says what to do.
void check_refused(const std::string& arguments, const std::string& words) {
  INFO(arguments);
  const Finished finished = run_binary(arguments);
  INFO(finished.err);
  CHECK(finished.exit_code == 2);
  CHECK(finished.out.empty());
  CHECK(finished.err.starts_with("error: "));
  CHECK(finished.err.find("error: ", 1) == std::string::npos);
  CHECK_THAT(finished.err, contains("  fix: ") && contains(words));
}

std::string run_file(const TemporaryFile& file) {
  return "run " + file.path();
}

}  // namespace

TEST_CASE("what the command line has wrong is refused with exit code 2", "[cli]") {
  check_refused("", "A subcommand is required");
  check_refused("runn --ranks 2", "there is no command 'runn'");
  check_refused("runn", "did you mean 'run'?");
  check_refused("run --nope", "--nope");
  check_refused("run a.yaml b.yaml", "b.yaml");
  check_refused("run --seed", "--seed");
  check_refused("list flavours", "flavours not in");
  check_refused("config", "A subcommand is required");
  check_refused("config validate", "there is no file to validate");
}

TEST_CASE("a misspelt key is refused with the nearest one, one rank or four", "[cli]") {
  for (const char* ranks : {"1", "4"}) {
    const TemporaryFile file("ranks: " + std::string(ranks) + "\nmodle: tiny\ngrpo: {promts: 4}\n");
    check_refused(run_file(file), ":2:8: there is no key 'modle'");
    check_refused(run_file(file), "did you mean 'grpo.prompts'?");
  }
}

TEST_CASE("numbers that do not fit each other are refused", "[cli]") {
  check_refused("run --model-top-k 9", "use a top_k of 1 to 8");
  check_refused("run --ranks 3", "use one of: 1, 2, 4, 8 ranks");
  check_refused("run --set grpo.prompts=many", "grpo.prompts");
}

TEST_CASE("what is no configuration file is refused", "[cli]") {
  check_refused("run /tmp", "this is a directory");
  check_refused("run " + TemporaryFile("").path() + ".missing", "file.yaml.missing");
  const TemporaryFile empty("");
  check_refused(run_file(empty), "the file is empty");
  const TemporaryFile garbage(std::string(1000, '\x01'));
  check_refused(run_file(garbage), "a control character");
}

TEST_CASE("names that this build does not know are refused with those it does", "[cli]") {
  check_refused("run --dispatcher altoall", "did you mean 'alltoall'?");
  check_refused("run --transport pigeons", "loopback");
}

TEST_CASE("a flag is stronger than --set, the environment and the file", "[cli]") {
  const TemporaryFile file("seed: 1\n");
  const std::string show = "config show " + file.path();
  CHECK_THAT(run_binary(show).out, contains("seed: 1"));
  CHECK_THAT(run_binary(show, "MRB_SEED=2").out, contains("seed: 2") && contains("# MRB_SEED"));
  CHECK_THAT(run_binary(show + " --set seed=3", "MRB_SEED=2").out, contains("seed: 3") && contains("# --set seed"));
  CHECK_THAT(run_binary(show + " --set seed=3 --seed 4", "MRB_SEED=2").out,
             contains("seed: 4") && contains("# --seed"));
}

TEST_CASE("what config init prints is valid", "[cli]") {
  const Finished printed = run_binary("config init");
  CHECK(printed.exit_code == 0);
  const TemporaryFile file(printed.out);
  const Finished checked = run_binary("config validate " + file.path());
  CHECK(checked.exit_code == 0);
  CHECK_THAT(checked.out, contains("valid, 1 variant\n"));
}

TEST_CASE("config schema prints a JSON Schema", "[cli]") {
  const Finished finished = run_binary("config schema");
  CHECK(finished.exit_code == 0);
  CHECK_THAT(finished.out, contains("\"$schema\"") && contains("response_tokens_max"));
}

TEST_CASE("list tells what is in this build", "[cli]") {
  const Finished finished = run_binary("list");
  CHECK(finished.exit_code == 0);
  CHECK(finished.err.empty());
  CHECK(std::regex_search(finished.out, std::regex("alltoall +on +one row per")));
  CHECK(std::regex_search(finished.out, std::regex("loopback +on\n")));
  CHECK(std::regex_search(finished.out, std::regex("tiny +0.90 M weights")));
  for (const char* name : {"mpi", "libfabric", "cuda", "nccl"}) {  // a library is loaded, or there is a way to get it
    CHECK(std::regex_search(finished.out, std::regex(std::string(name) + " +(built with .*loaded|off .*-DMRB_WITH_)")));
  }
  const Finished one = run_binary("list dispatchers");
  CHECK_THAT(one.out, contains("rank_dedup") && !contains("loopback"));
}

TEST_CASE("version tells what was built and what is loaded", "[cli]") {
  const Finished finished = run_binary("version");
  CHECK(finished.exit_code == 0);
  for (const char* line :
       {"moe-rl-bench ", "commit ", "compiler ", "build type ", "processor ", "result schema 1", "oneDNN "}) {
    CHECK_THAT(finished.out, contains(line));
  }
}

TEST_CASE("help is a result, not an error", "[cli]") {
  for (const char* command : {"--help", "run --help", "config show --help", "list --help"}) {
    const Finished finished = run_binary(command);
    CHECK(finished.exit_code == 0);
    CHECK(finished.err.empty());
    CHECK_THAT(finished.out, contains("Usage: moe-rl-bench"));
  }
  CHECK_THAT(run_binary("--help").out, contains("Exit codes: "));
  CHECK_THAT(run_binary("run --help").out, contains("--grpo-prompts") && contains("--dry-run"));
}
