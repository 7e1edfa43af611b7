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

// Told to stop, a program gets a minute to write what it has; one that hangs in the start of its libraries does not hear.
int wait_for(pid_t started) {
  constexpr int kGrace_ms = 60'000, kLookEvery_ms = 20;
  int status = 0;
  for (int waited_ms = 0;;) {
    const pid_t ended = ::waitpid(started, &status, handed_on != 0 ? WNOHANG : 0);
    if (ended == started || (ended < 0 && errno != EINTR)) return status;
    if (ended != 0) continue;
    if (waited_ms == kGrace_ms) ::kill(started, SIGKILL);
    ::usleep(kLookEvery_ms * 1000);
    waited_ms += kLookEvery_ms;
  }
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
  if (handed_on != 0) return {.exit_code = 128 + handed_on, .signal_handed_on = handed_on};
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
  const int status = wait_for(started);
  child = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted) throw not_started("there is no such program");
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .signal_handed_on = handed_on};
}

}  // namespace mrb
