// A tuning session on disk: journal.jsonl after every launch, and in the end tune.json, tuned.yaml and the rest. On rank
// 0 alone.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "report/results_folder.hpp"
#include "report/run_info.hpp"
#include "report/tune_report.hpp"
#include "tune/journal.hpp"
#include "tune/space.hpp"
#include "tune/work_gate.hpp"

namespace mrb {

class TuneSession {
 public:
  // Begins anew, in a new folder of the results, or goes on in `resumed`, an existing one. Throws Error(config) when that
  // one's space is another, Error(not_comparable) when its build or machine is.
  TuneSession(RunInfo, TuneSpace, const JournalHead&, const std::string& resumed);

  const std::string& folder() const { return folder_; }
  const JournalHead& head() const { return journal_.head; }
  int launches() const { return static_cast<int>(journal_.records.size()); }

  // Launches of a candidate that was seen to compute something else are recorded as such, and not asked for.
  std::optional<TuneLaunch> next();

  // Asked before a launch that may take all ranks down with it: what is known of it when it has done so before, or
  // nothing when it is to be tried, which is then on disk for whoever starts the ranks again.
  std::optional<TuneRecord> lost(const TuneLaunch&);

  // After so long a launch hangs: the given limit, and less once the baseline has shown what is usual.
  double launch_limit_s() const;

  // On disk when it returns. A launch whose work differs from the baseline's of its seed becomes a wrong result.
  void add(TuneRecord, const std::vector<StepWork>&);

  // What is likely and at most to come, printed to stderr.
  void print_cost() const;

  // Writes what there is, prints the table, and returns the exit code: 0 with an answer, 3 without one, 7 when the
  // baseline or nothing ran, or `interrupted_exit_code` when that is not 0.
  int finish(int interrupted_exit_code);

 private:
  void write(const std::string& name, const std::string& text) const;

  RunInfo info_;
  TuneSpace space_;
  std::string folder_;
  Journal journal_;
  std::unique_ptr<JournalWriter> writer_;
  std::unique_ptr<Tuner> tuner_;
  WorkGate gate_;
};

int exit_code_of(TuneEnd);

}  // namespace mrb
