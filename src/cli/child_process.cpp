#include "cli/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
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

constexpr int kLookEvery_ms = 50;

// What the child says, and nothing; waits a little.
void listen(int words, ChildWatch& watch) {
  pollfd ready = {words, POLLIN, 0};
  ::poll(&ready, 1, kLookEvery_ms);
  char chunk[4096];
  for (ssize_t bytes = 0; (bytes = ::read(words, chunk, sizeof chunk)) > 0;) {
    watch.hear({chunk, static_cast<std::size_t>(bytes)});
  }
  if ((ready.revents & POLLHUP) != 0) ::usleep(kLookEvery_ms * 1000);  // closed: poll() does not wait
}

// Told to stop, a program gets a minute to write what it has; one that hangs in the start of its libraries does not hear.
int wait_for(pid_t started, int words, ChildWatch* watch) {
  constexpr int kGrace_ms = 60'000;
  int status = 0;
  for (int waited_ms = 0;;) {
    const bool may_block = watch == nullptr && handed_on == 0;
    const pid_t ended = ::waitpid(started, &status, may_block ? 0 : WNOHANG);
    if (watch != nullptr) listen(words, *watch);
    if (ended == started || (ended < 0 && errno != EINTR)) return status;
    if (ended != 0) continue;
    if (watch == nullptr) ::usleep(kLookEvery_ms * 1000);
    if (handed_on != 0 && (waited_ms += kLookEvery_ms) >= kGrace_ms) ::kill(started, SIGKILL);
    if (const int signal = watch != nullptr ? watch->signal_due() : 0; signal != 0) ::kill(started, signal);
  }
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& words, const std::string& log, const std::string& fix,
                   ChildWatch* watch) {
  const auto not_started = [&](const std::string& why) {
    return Error(ErrorKind::environment, fmt::format("{} could not be started: {}", words.front(), why), fix);
  };
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);

  hand_on_signals();
  if (handed_on != 0) return {.exit_code = 128 + handed_on, .signal_handed_on = handed_on};
  int pipe_ends[2] = {-1, -1};
  if (watch != nullptr && ::pipe2(pipe_ends, O_CLOEXEC) != 0) throw not_started(std::strerror(errno));
  const pid_t started = ::fork();
  if (started == 0) {
    if (watch != nullptr) ::dup2(pipe_ends[1], STDERR_FILENO);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // no ranks without someone who waits for them
    if (!log.empty()) write_to(log.c_str());
    ::execvp(argv[0], argv.data());
    ::_exit(kNotStarted);
  }
  if (started < 0) throw not_started(std::strerror(errno));
  child = started;
  if (handed_on != 0) ::kill(started, handed_on);  // it came before there was anyone to hand it to
  if (watch != nullptr) {
    ::close(pipe_ends[1]);
    ::fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK);
  }
  const int status = wait_for(started, pipe_ends[0], watch);
  if (watch != nullptr) ::close(pipe_ends[0]);
  child = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted) throw not_started("there is no such program");
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .signal_handed_on = handed_on};
}

}  // namespace mrb
