#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
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

// What mpirun gets, once the ranks have ended, to end itself; and after SIGTERM.
constexpr double kGrace_s = 5, kGraceAfterTerm_s = 2;

// Passes on what mpirun and the ranks say, and ends an mpirun that the ranks have outlived.
class MpirunWatch {
 public:
  MpirunWatch(pid_t mpirun, int words) : mpirun_(mpirun), words_(words) { ::fcntl(words, F_SETFL, O_NONBLOCK); }
  ~MpirunWatch() { ::close(words_); }
  MpirunWatch(const MpirunWatch&) = delete;
  MpirunWatch& operator=(const MpirunWatch&) = delete;

  // Until mpirun has ended. Returns its exit code, or that of the ranks when it had to be ended.
  int wait() {
    constexpr int kLookEvery_ms = 50;
    int status = 0;
    while (::waitpid(mpirun_, &status, WNOHANG) != mpirun_) {
      pollfd words = {words_, POLLIN, 0};
      ::poll(&words, 1, kLookEvery_ms);
      pass_on();
      end_mpirun_in_time();
      if ((words.revents & POLLHUP) != 0) ::usleep(kLookEvery_ms * 1000);  // closed: poll() would not wait
    }
    pass_on();
    if (is_ended_by_us_) return exit_code_;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  void pass_on() {
    char chunk[4096];
    for (ssize_t bytes = 0; (bytes = ::read(words_, chunk, sizeof chunk)) > 0;) {
      std::fwrite(chunk, 1, static_cast<std::size_t>(bytes), stderr);
      last_lines_.append(chunk, static_cast<std::size_t>(bytes));
    }
    if (exit_code_ < 0) exit_code_ = exit_code_in(last_lines_);
    if (exit_code_ >= 0 && ended_ns_ == 0) ended_ns_ = steady_now_ns();
    const std::size_t whole = last_lines_.rfind('\n');
    if (whole != std::string::npos) last_lines_.erase(0, whole + 1);
  }

  void end_mpirun_in_time() {
    if (ended_ns_ == 0) return;
    const double since_s = ns_to_s(steady_now_ns() - ended_ns_);
    if (since_s < kGrace_s) return;
    is_ended_by_us_ = true;
    ::kill(mpirun_, since_s < kGrace_s + kGraceAfterTerm_s ? SIGTERM : SIGKILL);
  }

  pid_t mpirun_;
  int words_;
  std::string last_lines_;  // what has not been looked at, or is not yet a line
  int exit_code_ = -1;      // of the ranks, once they have said so
  std::int64_t ended_ns_ = 0;
  bool is_ended_by_us_ = false;
};

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
  int words_of_ranks[2] = {};
  if (::pipe2(words_of_ranks, O_CLOEXEC) != 0) throw not_started(std::strerror(errno));
  const pid_t started = ::fork();
  if (started == 0) {
    ::dup2(words_of_ranks[1], STDERR_FILENO);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // no ranks without someone who waits for them
    ::execvp(words[0], words.data());
    ::_exit(kNotStarted);
  }
  if (started < 0) throw not_started(std::strerror(errno));
  child = started;
  ::close(words_of_ranks[1]);
  if (handed_on != 0) ::kill(started, handed_on);  // it came before there was anyone to hand it to
  const int exit_code = MpirunWatch(started, words_of_ranks[0]).wait();
  if (exit_code == kNotStarted) throw not_started("it is not on PATH");
  return handed_on != 0 ? 128 + handed_on : exit_code;
}

namespace {

constexpr std::string_view kEndNotice = " ends all ranks with exit code ";

}  // namespace

std::string end_notice(int rank, int exit_code) {
  return fmt::format("rank {}{}{}\n", rank, kEndNotice, exit_code);
}

int exit_code_in(const std::string& words) {
  const std::size_t notice = words.find(kEndNotice);
  if (notice == std::string::npos || words.find('\n', notice) == std::string::npos) return -1;
  return std::atoi(words.c_str() + notice + kEndNotice.size());
}

}  // namespace mrb
