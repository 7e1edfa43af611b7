#include "cli/tune_supervisor.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "cli/child_process.hpp"
#include "cli/cli.hpp"
#include "report/results_folder.hpp"

namespace mrb {

namespace {

constexpr std::string_view kFolderLine = "tuning in ";

// Hears where the session is, and ends the ranks when the launch in flight takes too long.
class LaunchWatch final : public ChildWatch {
 public:
  explicit LaunchWatch(std::string folder) : folder_(std::move(folder)) {}

  void hear(std::string_view words) override {
    last_line_ += words;
    for (std::size_t end = 0; (end = last_line_.find('\n')) != std::string::npos; last_line_.erase(0, end + 1)) {
      const std::string line = last_line_.substr(0, end);
      if (line.starts_with(kFolderLine)) folder_ = line.substr(kFolderLine.size());
      if (line.starts_with("error: ")) error_ = line.substr(7);
    }
  }

  int signal_due() override {
    constexpr double kLookEvery_s = 0.5, kGrace_s = 10;  // mpirun ends its ranks within some seconds
    const double now_s = ns_to_s(clock_.now_ns());
    if (now_s - looked_s_ < kLookEvery_s) return 0;
    looked_s_ = now_s;
    const std::optional<LaunchInFlight> seen = folder_.empty() ? std::nullopt : read_in_flight(folder_);
    if (!seen) return 0;
    if (!flight_ || seen->number != flight_->number) {
      flight_ = seen;
      began_s_ = now_s;
    }
    const double past_s = now_s - began_s_ - flight_->limit_s;
    if (past_s < 0) return 0;
    const int signal = !has_passed_ ? SIGTERM : past_s > kGrace_s ? SIGKILL : 0;
    has_passed_ = true;
    return signal;
  }

  const std::string& folder() const { return folder_; }
  const std::string& error() const { return error_; }
  const std::optional<LaunchInFlight>& flight() const { return flight_; }
  bool has_passed() const { return has_passed_; }
  double elapsed_s() const { return ns_to_s(clock_.now_ns()) - began_s_; }

 private:
  const SteadyClock clock_;
  std::string folder_, last_line_, error_;
  std::optional<LaunchInFlight> flight_;
  double looked_s_ = 0, began_s_ = 0;
  bool has_passed_ = false;
};

// The end of the tuning, of a wish to stop, or of what would fail again: not that of one launch.
bool is_final(int exit_code) {
  switch (exit_code) {
    case 0:
    case 3:
    case static_cast<int>(ErrorKind::config):
    case static_cast<int>(ErrorKind::environment):
    case static_cast<int>(ErrorKind::partial):
    case static_cast<int>(ErrorKind::not_comparable):
    case 128 + SIGHUP:
    case 128 + SIGINT:
    case 128 + SIGTERM:
      return true;
    default:
      return false;
  }
}

}  // namespace

void write_in_flight(const std::string& folder, const LaunchInFlight& launch) {
  replace_file(folder + "/in_flight", fmt::format("{} {} {}\n", launch.number, launch.attempt, launch.limit_s));
}

std::optional<LaunchInFlight> read_in_flight(const std::string& folder) {
  LaunchInFlight launch;
  std::ifstream file(folder + "/in_flight");
  if (!(file >> launch.number >> launch.attempt >> launch.limit_s)) return std::nullopt;
  return launch;
}

void write_lost(const std::string& folder, const LostLaunch& launch) {
  replace_file(folder + "/lost", fmt::format("{} {} {}\n{}\n", launch.number, launch_outcome_text(launch.outcome),
                                             launch.elapsed_s, launch.reason));
}

std::optional<LostLaunch> read_lost(const std::string& folder) {
  LostLaunch launch;
  std::ifstream file(folder + "/lost");
  std::string outcome;
  if (!(file >> launch.number >> outcome >> launch.elapsed_s)) return std::nullopt;
  if (outcome == launch_outcome_text(LaunchOutcome::hung)) launch.outcome = LaunchOutcome::hung;
  std::getline(file >> std::ws, launch.reason);
  return launch;
}

std::string folder_line(const std::string& folder) {
  return fmt::format("{}{}\n", kFolderLine, folder);
}

int supervise_tune(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  std::string folder;
  for (int lost = 0, in_a_row = 0;;) {
    LaunchWatch watch(folder);
    const int code = launch_self(ranks, words, &watch);
    folder = watch.folder();
    if (!watch.flight() || (!watch.has_passed() && is_final(code))) return code;
    // The same launch twice: the ranks end before it begins, and so would they for ever.
    in_a_row = watch.flight()->number == lost ? in_a_row + 1 : 0;
    lost = watch.flight()->number;
    if (in_a_row > 1) return code;
    const bool hung = watch.has_passed();
    const std::string reason =
        hung ? fmt::format("it took longer than {:.0f} s", watch.flight()->limit_s)
             : fmt::format("all ranks ended, exit code {}{}", code, watch.error().empty() ? "" : ": " + watch.error());
    write_lost(folder, {.number = lost,
                        .outcome = hung ? LaunchOutcome::hung : LaunchOutcome::failed,
                        .elapsed_s = watch.elapsed_s(),
                        .reason = reason});
    std::fputs(fmt::format("launch {} is lost: {}; going on without it\n", lost, reason).c_str(), stderr);
    words = {"tune", "--resume", folder};
  }
}

}  // namespace mrb
