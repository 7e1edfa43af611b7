#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "cli/child_process.hpp"
#include "cli/cli.hpp"
#include "cluster/bootstrap.hpp"
#include "cluster/machine.hpp"

namespace mrb {

namespace {

constexpr std::string_view kEndNotice = " ends all ranks with exit code ";

// Passes on what mpirun and the ranks say, and ends an mpirun that the ranks have outlived.
class MpirunWatch final : public ChildWatch {
 public:
  explicit MpirunWatch(ChildWatch* also) : also_(also) {}

  void hear(std::string_view words) override {
    if (also_ != nullptr) also_->hear(words);
    std::fwrite(words.data(), 1, words.size(), stderr);
    last_lines_ += words;
    if (exit_code_ < 0) exit_code_ = exit_code_in(last_lines_);
    if (lost_host_.empty()) lost_host_ = lost_host_in(last_lines_);
    if (exit_code_ >= 0 && ended_ns_ == 0) ended_ns_ = steady_now_ns();
    const std::size_t whole = last_lines_.rfind('\n');
    if (whole != std::string::npos) last_lines_.erase(0, whole + 1);
  }

  int signal_due() override {
    if (const int signal = also_ != nullptr ? also_->signal_due() : 0; signal != 0) return signal;
    constexpr double kGrace_s = 5, kGraceAfterTerm_s = 2;
    const double since_s = ended_ns_ == 0 ? 0 : ns_to_s(steady_now_ns() - ended_ns_);
    if (since_s < kGrace_s) return 0;
    is_ended_by_us_ = true;
    return since_s < kGrace_s + kGraceAfterTerm_s ? SIGTERM : SIGKILL;
  }

  // mpirun's exit code, or that of the ranks when it had to be ended. A host that is gone has no rank left to say so, and
  // mpirun's own code for it means nothing to anybody.
  int exit_code(int of_mpirun) const {
    if (is_ended_by_us_) return exit_code_;
    return has_lost_a_host(of_mpirun) ? static_cast<int>(ErrorKind::timeout) : of_mpirun;
  }

  // Open MPI says so, or only ends with a code that no rank of ours and no signal has (205, 9).
  bool has_lost_a_host(int of_mpirun) const {
    const bool is_of_ranks = of_mpirun <= 8 || of_mpirun == static_cast<int>(ErrorKind::internal);
    const bool is_of_signal = of_mpirun > 128 && of_mpirun < 128 + 65;
    return !is_ended_by_us_ && (!lost_host_.empty() || !(is_of_ranks || is_of_signal));
  }

  std::string lost_host() const { return lost_host_.empty() ? "of some rank" : lost_host_; }

 private:
  ChildWatch* also_;
  std::string last_lines_;  // what has not been looked at, or is not yet a line
  int exit_code_ = -1;      // of the ranks, once they have said so
  std::string lost_host_;   // that mpirun has lost its daemon on
  std::int64_t ended_ns_ = 0;
  bool is_ended_by_us_ = false;
};

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

int launch_self(int ranks, const std::vector<std::string>& arguments, ChildWatch* also) {
  for (const RegistryLine& line : bootstrap_lines()) {
    if (line.name == "mpi" && !line.needs.empty()) {
      throw Error(ErrorKind::config, fmt::format("{} ranks need MPI, which was left out of this build", ranks),
                  "configure with -DMRB_WITH_MPI=ON and build again, or use ranks: 1");
    }
  }
  const auto command = mpirun_command(ranks, arguments);
  std::fputs(fmt::format("starting {}\n", fmt::join(command, " ")).c_str(), stderr);
  MpirunWatch watch(also);
  const ChildEnd end = run_child(command, "", "install Open MPI (Debian: openmpi-bin), or put mpirun on PATH", &watch);
  if (end.signal_handed_on == 0 && watch.has_lost_a_host(end.exit_code)) {
    std::fputs(fmt::format("error: node {} is gone, and its ranks with it (exit code {} of mpirun)\n  fix: look why it "
                           "ended: the pod's status and events, the memory limit, the end of a capacity block\n",
                           watch.lost_host(), end.exit_code)
                   .c_str(),
               stderr);
  }
  return end.signal_handed_on != 0 ? 128 + end.signal_handed_on : watch.exit_code(end.exit_code);
}

std::string end_notice(int rank, int exit_code) {
  return fmt::format("rank {}{}{}\n", rank, kEndNotice, exit_code);
}

std::string lost_host_in(const std::string& words) {
  const std::size_t lost = words.find("Remote daemon: ");  // Open MPI 4
  const std::size_t host = words.find(" on node ", lost), end = words.find('\n', host);
  if (lost == std::string::npos || host == std::string::npos || end == std::string::npos) return "";
  const std::size_t begin = host + std::string_view(" on node ").size();
  return words.substr(begin, end - begin);
}

int exit_code_in(const std::string& words) {
  const std::size_t notice = words.find(kEndNotice);
  if (notice == std::string::npos || words.find('\n', notice) == std::string::npos) return -1;
  return std::atoi(words.c_str() + notice + kEndNotice.size());
}

}  // namespace mrb
