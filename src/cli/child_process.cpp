#include "cli/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.hpp"

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

// In the child. Only what is allowed between fork and exec.
void write_to(const char* log) {
  const int file = ::open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& words, const std::string& log, const std::string& fix) {
  const auto not_started = [&](const std::string& why) {
    return Error(ErrorKind::environment, fmt::format("{} could not be started: {}", words.front(), why), fix);
  };
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  hand_on_signals();
  const pid_t started = ::fork();
  if (started == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // no ranks without someone who waits for them
    if (!log.empty()) write_to(log.c_str());
    ::execvp(argv[0], argv.data());
    ::_exit(kNotStarted);
  }
  if (started < 0) throw not_started(std::strerror(errno));
  child = started;
  if (handed_on != 0) ::kill(started, handed_on);  // it came before there was anyone to hand it to
  int status = 0;
  while (::waitpid(started, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted) throw not_started("there is no such program");
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .signal_handed_on = handed_on};
}

}  // namespace mrb
