// What an A/B comparison has found so far, on disk after every launch: before.json, after.json, comparison.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/ab.hpp"
#include "cli/gate_options.hpp"
#include "report/results_folder.hpp"
#include "report/side_record.hpp"

namespace mrb {

struct AbOptions {
  GateOptions gate;
  AbPlan plan;
  bool is_same = false;  // A against itself, to measure the noise
  std::string results_dir = "results";
};

class AbSession {
 public:
  explicit AbSession(const AbOptions&);

  const std::string& folder() const { return folder_.path(); }

  // The result.json of one launch of a side, which took `launch_s`.
  void add(Side, const std::string& result_json, double launch_s);

  // Compares what there is. Whether the verdict stands; throws when the margins are below the noise floor.
  bool decided();

  // Writes the end, prints the answer, and returns the exit code.
  int finish(const AbOutcome&, int interrupted_exit_code);

 private:
  SideRecord& side(Side which) { return which == Side::before ? before_ : after_; }
  void compare();
  void check_noise_floor();
  void write(Side);

  const AbOptions& options_;
  std::string id_;
  ResultsFolder folder_;
  SideRecord before_, after_;
  double launches_s_ = 0;
  RunComparison comparison_;
};

}  // namespace mrb
