#include <algorithm>
#include <string>
#include <vector>

#include "cli/cli.hpp"
#include "support/catch.hpp"

using namespace mrb;

namespace {

bool has(const std::vector<std::string>& command, const std::string& word) {
  return std::find(command.begin(), command.end(), word) != command.end();
}

}  // namespace

TEST_CASE("ranks are started with the same arguments", "[cli]") {
  const auto command = mpirun_command(4, 8, false, {"run", "--ranks", "4"});
  REQUIRE(command.size() > 6);
  CHECK(command[0] == "mpirun");
  CHECK(command[1] == "-np");
  CHECK(command[2] == "4");
  CHECK(std::vector<std::string>(command.end() - 3, command.end()) == std::vector<std::string>{"run", "--ranks", "4"});
}

TEST_CASE("only root is allowed to be root", "[cli]") {
  CHECK(has(mpirun_command(2, 2, true, {}), "--allow-run-as-root"));
  CHECK_FALSE(has(mpirun_command(2, 2, false, {}), "--allow-run-as-root"));
}

TEST_CASE("more ranks than cores share them and yield", "[cli]") {
  const auto crowded = mpirun_command(4, 2, false, {});
  CHECK(has(crowded, "--oversubscribe"));
  CHECK(has(crowded, "mpi_yield_when_idle"));
  CHECK_FALSE(has(mpirun_command(2, 2, false, {}), "--oversubscribe"));
}

TEST_CASE("a rank's notice that it ends all others tells their exit code", "[cli]") {
  CHECK(exit_code_in("error: waits\n" + end_notice(3, 6) + "[host] killed\n") == 6);
  CHECK(exit_code_in("[1,0]<stderr>:" + end_notice(0, 70)) == 70);      // as mpirun tags it
  CHECK(exit_code_in("rank 3 ends all ranks with exit code 1") == -1);  // the line may go on
  CHECK(exit_code_in("error: nothing of it\n") == -1);
  const std::string lost = "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[1,0],0] on node a\n";
  CHECK(lost_host_in(lost + "  Remote daemon: [[1,0],2] on node w-1.bench.ns.svc\n") == "w-1.bench.ns.svc");
  CHECK(lost_host_in(lost + "  Remote daemon: [[1,0],2] on node w-1.be").empty());  // the line may go on
  CHECK(lost_host_in("error: nothing of it\n").empty());
}
