#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_binary.hpp"
#include "support/catch.hpp"

using namespace mrb::test;
using Json = nlohmann::json;

namespace {

const std::string kSmall = "--model-hidden 16 --model-experts 4 --model-top-k 2 --launches 2 -n 3 -w 1 ";

// The rows that are numbers, cut into words.
std::vector<std::vector<std::string>> rows_of(const std::string& table) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    rows.emplace_back(std::istream_iterator<std::string>(words), std::istream_iterator<std::string>());
  }
  return rows;
}

}  // namespace

TEST_CASE("micro prints rows that scripts for nccl-tests can read", "[cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/micro.json";
  const Finished finished =
      run_binary("micro pair " + kSmall + "-b 64 -e 1K -f 4 --dispatcher alltoall,rank_dedup -J " + file);
  INFO(finished.err);
  REQUIRE(finished.exit_code == 0);
  const auto rows = rows_of(finished.out);
  REQUIRE(rows.size() == 6);
  // size, count, type, redop, root, time, algbw, busbw, #wrong, and then ours
  CHECK(rows[4][0] == "1024");
  CHECK(rows[4][1] == "256");
  CHECK(rows[4][2] == "f32");
  CHECK(rows[4][3] == "none");
  CHECK(std::stod(rows[4][5]) > 0);
  CHECK(rows[4][8] == "0");
  CHECK(rows[4][9] == "alltoall");
  CHECK(rows[5][9] == "rank_dedup");
  CHECK(rows[4][10] == "16");  // tokens
  CHECK_THAT(finished.out, contains("Out of bounds values : 0 OK") && contains("Avg bus bandwidth") &&
                               contains("carried by loopback (memcpy)") && contains("speed against the baseline"));
  const Json json = Json::parse(text_of(file));
  CHECK(json["status"] == "ok");
  CHECK(json["results"][1]["sizes"][2]["launches"].size() == 2);
  CHECK(json["results"][1]["sizes"][2]["launches"][0]["slowest_ns"].size() == 3);
}

TEST_CASE("micro takes numbers of tokens, steps and types", "[cli]") {
  const auto rows = rows_of(run_binary("micro dispatch " + kSmall + "--tokens 7,3 -d bf16 -c 0").out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0][0] == "96");  // 3 x 16 x 2
  CHECK(rows[0][2] == "bf16");
  CHECK(rows[0][8] == "N/A");
  CHECK(rows[1][10] == "7");
  CHECK(rows_of(run_binary("micro combine " + kSmall + "-b 64 -e 256 -i 64").out).size() == 4);
}

TEST_CASE("micro refuses what makes no sense, with the fix", "[cli]") {
  const auto refused = [](const std::string& arguments, const std::string& words) {
    const Finished finished = run_binary("micro " + arguments);
    INFO(arguments << "\n" << finished.err);
    CHECK(finished.exit_code == 2);
    CHECK_THAT(finished.err, contains(words) && contains("fix: "));
    CHECK(finished.out.empty());
  };
  refused("", "subcommand");
  refused("pair -b 2M -e 1M", "above -e 1M");
  refused("pair -b 0", "-b 0: this is no size");
  refused("pair -b 4Q", "-b 4Q: this is no size");
  refused("pair -b nan", "this is no size");
  refused("pair -f 1", "does not make sizes grow");
  refused("pair -i 1K -f 2", "-i and -f");
  refused("pair -b 1 -e 1G -i 1", "more than 1000 sizes");
  refused("pair --tokens 1 -b 4", "excludes");
  refused("pair -d bf16 --dispatcher-combine-dtype fp8", "excludes");
  refused("pair --tokens 1,x", "no number of tokens");
  refused("pair --routing random", "not understood");
  refused("pair --routing group_limited:3:1", "do not divide");
  refused("pair --model-hidden 16,32", "model.hidden has 2 values");
  refused("pair -n 0", "--iters");
  refused("pair -c 2", "--check");
  refused("pair --grpo-prompts 4", "grpo-prompts");
  refused("pair --dispatcher alltoal", "alltoal");
  refused("transport", "at least 2 ranks");
  refused("dispatch -d f64", "f64");
}

TEST_CASE("a file that micro cannot write is found before anything is measured", "[cli]") {
  const Finished finished = run_binary("micro pair " + kSmall + "-J /nowhere/micro.json");
  CHECK(finished.exit_code == 5);
  CHECK_THAT(finished.err, contains("cannot be written") && !contains("launch"));
}

TEST_CASE("when a rank stops, one message says what every rank waits for", "[cli]") {
  const Finished finished = run_binary(
      "micro pair --ranks 3 --model-experts 6 --model-top-k 2 --transport mpi -b 4K -e 4K --launches 1 "
      "--transport-timeout-s 1 --chaos-seed 5 --chaos-stop-rank 2 --chaos-stop-after-puts 50");
  INFO(finished.err);
  if (finished.exit_code == 2) {  // a build without MPI
    CHECK_THAT(finished.err, contains("-DMRB_WITH_MPI=ON"));
    return;
  }
  CHECK(finished.exit_code == 6);
  CHECK_THAT(finished.err, contains("error: all 3 ranks wait in vain\n[rank 0 of 3, ") && contains("[rank 1 of 3, ") &&
                               contains("[rank 2 of 3, ") && contains("stopped by chaos.stop_rank"));
  CHECK_THAT(finished.err, contains("for rank 2 (") && contains("here: exchange "));
  CHECK(finished.err.find("wait in vain") == finished.err.rfind("wait in vain"));
  CHECK(finished.out.empty());
}

TEST_CASE("variants of a transport are those of its own settings", "[cli]") {
  const Finished finished =
      run_binary("micro alltoallv --ranks 2 --transport mpi --chaos-seed 0,3 -b 64 -e 64 --launches 1 -n 1 -w 0");
  INFO(finished.err);
  if (finished.exit_code == 2) {  // a build without MPI
    CHECK_THAT(finished.err, contains("-DMRB_WITH_MPI=ON"));
    return;
  }
  REQUIRE(finished.exit_code == 0);
  const auto rows = rows_of(finished.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0][9] == "mpi");
  CHECK(rows[1][9] == "mpi:seed=3");
  CHECK_THAT(finished.out, contains("# note: chaos: puts are held"));
}
