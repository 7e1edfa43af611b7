#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "cluster/bootstrap.hpp"
#include "cluster/machine.hpp"

namespace mrb {

std::vector<std::string> mpirun_command(int ranks, int cores, bool is_root, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {"mpirun", "-np", std::to_string(ranks)};
  if (is_root) command.push_back("--allow-run-as-root");
  if (ranks > cores) {
    // A rank that spins would keep the rank it waits for from running.
    for (const char* word : {"--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"}) command.push_back(word);
  }
  command.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

void launch_self(int ranks, const std::vector<std::string>& arguments) {
  for (const RegistryLine& line : bootstrap_lines()) {
    if (line.name == "mpi" && !line.needs.empty()) {
      throw Error(ErrorKind::config, fmt::format("{} ranks need MPI, which was left out of this build", ranks),
                  "configure with -DMRB_WITH_MPI=ON and build again, or use ranks: 1");
    }
  }
  const auto command = mpirun_command(ranks, read_machine().cores_allowed, ::geteuid() == 0, arguments);
  std::string line;
  std::vector<char*> words;
  for (const std::string& word : command) {
    line += (line.empty() ? "" : " ") + word;
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  std::fputs(fmt::format("starting {}\n", line).c_str(), stderr);
  ::execvp(words[0], words.data());
  throw Error(ErrorKind::environment, fmt::format("mpirun could not be started: {}", std::strerror(errno)),
              "install Open MPI (Debian: openmpi-bin), or put mpirun on PATH");
}

}  // namespace mrb
