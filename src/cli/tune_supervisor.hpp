// Ranks that tune, started again without the launch in flight when they end in the middle of it or pass its limit. The
// two sides speak through files in the session's folder, which outlive both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tune/tuner.hpp"

namespace mrb {

// What the ranks say before each launch: `in_flight`.
struct LaunchInFlight {
  int number = 0;   // from 1, as in the journal
  int attempt = 1;  // more than one: it was begun before, and nobody knows how it ended
  double limit_s = 0;
};
void write_in_flight(const std::string& folder, const LaunchInFlight&);
std::optional<LaunchInFlight> read_in_flight(const std::string& folder);

// What the supervisor says of a launch that ended the ranks: `lost`.
struct LostLaunch {
  int number = 0;
  LaunchOutcome outcome = LaunchOutcome::failed;  // or hung
  double elapsed_s = 0;
  std::string reason;
};
void write_lost(const std::string& folder, const LostLaunch&);
std::optional<LostLaunch> read_lost(const std::string& folder);

// Where the ranks' stderr names the session's folder, in a line of its own.
std::string folder_line(const std::string& folder);

// Starts the ranks with `arguments`, and again with --resume until the tuning is over. Returns the exit code; errors as
// launch_self().
int supervise_tune(int ranks, const std::vector<std::string>& arguments);

}  // namespace mrb
