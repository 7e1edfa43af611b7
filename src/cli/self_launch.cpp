#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "base/error.hpp"
#include "cli/child_process.hpp"
#include "cli/cli.hpp"
#include "cluster/bootstrap.hpp"
#include "cluster/machine.hpp"

namespace mrb {

std::vector<std::string> mpirun_command(int ranks, int cores, bool is_root, const std::vector<std::string>& arguments) {
  // Without binding, a rank's threads have the cores that the others leave, and we share them out.
  std::vector<std::string> command = {"mpirun", "-np", std::to_string(ranks), "--bind-to", "none"};
  if (is_root) command.push_back("--allow-run-as-root");
  if (ranks > cores) {
    // A rank that spins would keep the rank it waits for from running.
    for (const char* word : {"--oversubscribe", "--mca", "mpi_yield_when_idle", "1"}) command.push_back(word);
  }
  command.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::vector<std::string> mpirun_command(int ranks, const std::vector<std::string>& arguments) {
  return mpirun_command(ranks, read_machine().cores_allowed, ::geteuid() == 0, arguments);
}

int launch_self(int ranks, const std::vector<std::string>& arguments) {
  for (const RegistryLine& line : bootstrap_lines()) {
    if (line.name == "mpi" && !line.needs.empty()) {
      throw Error(ErrorKind::config, fmt::format("{} ranks need MPI, which was left out of this build", ranks),
                  "configure with -DMRB_WITH_MPI=ON and build again, or use ranks: 1");
    }
  }
  const auto command = mpirun_command(ranks, arguments);
  std::fputs(fmt::format("starting {}\n", fmt::join(command, " ")).c_str(), stderr);
  const ChildEnd end = run_child(command, "", "install Open MPI (Debian: openmpi-bin), or put mpirun on PATH");
  return end.signal_handed_on != 0 ? 128 + end.signal_handed_on : end.exit_code;
}

}  // namespace mrb
