#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "cluster/bootstrap.hpp"
#include "cluster/machine.hpp"

namespace mrb {

namespace {

constexpr int kNotStarted = 127;  // as a shell says it

volatile std::sig_atomic_t child = 0;
volatile std::sig_atomic_t handed_on = 0;

void hand_on(int signal, siginfo_t* info, void*) {
  handed_on = signal;
  // What a terminal sends, Ctrl-C, goes to mpirun as well; a second one would make it give up on the ranks.
  const bool from_terminal = info->si_code == SI_KERNEL;
  if (child > 0 && !from_terminal) ::kill(child, signal);
}

void hand_on_signals() {
  struct sigaction action = {};
  action.sa_sigaction = hand_on;
  action.sa_flags = SA_SIGINFO;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

Error not_started(const std::string& words) {
  return Error(ErrorKind::environment, fmt::format("mpirun could not be started: {}", words),
               "install Open MPI (Debian: openmpi-bin), or put mpirun on PATH");
}

}  // namespace

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
  std::string line;
  std::vector<char*> words;
  for (const std::string& word : command) {
    line += (line.empty() ? "" : " ") + word;
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  std::fputs(fmt::format("starting {}\n", line).c_str(), stderr);

  hand_on_signals();
  const pid_t started = ::fork();
  if (started == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // no ranks without someone who waits for them
    ::execvp(words[0], words.data());
    ::_exit(kNotStarted);
  }
  if (started < 0) throw not_started(std::strerror(errno));
  child = started;
  if (handed_on != 0) ::kill(started, handed_on);  // it came before there was anyone to hand it to
  int status = 0;
  while (::waitpid(started, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted) throw not_started("it is not on PATH");
  if (handed_on != 0) return 128 + handed_on;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace mrb
