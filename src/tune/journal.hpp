// What a tuning session has measured so far, on disk after every launch: JSON lines, the first of which says what is
// being tuned. Enough to go on after any kill, and to run the tuner again without the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tune/tuner.hpp"
#include "tune/work_gate.hpp"

namespace mrb {

struct JournalHead {
  std::string fingerprint;  // of build and machine: measurements under another one are not comparable
  std::string metric;       // what step_s is
  double launch_limit_s = 0;
  bool is_isolated = false;  // each launch had processes of its own
  TunePolicy policy;
  std::vector<TuneCandidate> candidates;
};

struct Journal {
  JournalHead head;
  std::vector<TuneRecord> records;
  std::vector<std::vector<StepWork>> works;  // of each record; empty where nothing was measured
  std::uint64_t whole_bytes = 0;             // up to the end of the last whole line; a kill may have torn what follows
};

// Throws Error(environment) when it cannot be read, Error(config) when a whole line is none of ours, with its number, or
// when there is no whole first line.
Journal read_journal(const std::string& path);
Journal parse_journal(const std::string& text, const std::string& path);

// Appends lines, each on disk when append() returns. Throws Error(environment) with the system's words, also when another
// process writes to the same journal.
class JournalWriter {
 public:
  // A new file; there must be none.
  JournalWriter(const std::string& path, const JournalHead&);
  // Goes on behind the last whole line.
  JournalWriter(const std::string& path, const Journal&);
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  void append(const TuneRecord&, const std::vector<StepWork>&, const JournalHead&);

 private:
  void lock();
  void write_line(const std::string& line);

  std::string path_;
  int file_ = -1;
};

// The tuner as the journal leaves it. Throws Error(config) when it does not ask for what the journal holds.
Tuner replay(const Journal&);

}  // namespace mrb
