// Every launch of a tuning, on disk before the next one starts: what a killed tuning goes on from, and what a finished
// one can be judged by without a cluster.
//
// A file of JSON lines. The first says what is tuned: the candidates, the policy, and the fingerprint of build and
// machine. Each of the others is one launch: candidate (number, name and hash), stage, block, seed, fingerprint,
// outcome, seconds. A line counts when its end is there: what a kill left of the last one is dropped.
#pragma once

#include <string>
#include <vector>

#include "tune/tuner.hpp"

namespace mrb {

struct Journal {
  std::vector<TuneCandidate> candidates;
  TunePolicy policy;
  std::string fingerprint;  // of build, machine and topology: measurements of another one are not comparable
  std::vector<TuneRecord> records;
};

// Throws Error(config) for a file that cannot be read, has no whole first line, or has a line that is not one of a
// journal's, and says which.
Journal read_journal(const std::string& path);

// The tuner as it stands after the journal's last launch. Throws Error(config) as Tuner::record() does.
Tuner replay(const Journal&);

// Throws Error(not_comparable) that lists what differs when a tuning of `asked` cannot go on from `found`: candidates
// (by their hashes), policy, fingerprint.
void refuse_unless_same(const Journal& found, const Journal& asked);

class JournalWriter {
 public:
  // Begins a new file with the journal's first line; its records are not written.
  static JournalWriter create(const std::string& path, const Journal&);
  // Goes on with a file that read_journal() has read, and cuts off what is left of a broken last line.
  static JournalWriter resume(const std::string& path, const Journal&);
  ~JournalWriter();
  JournalWriter(JournalWriter&&) noexcept;

  // Returns when the line is on disk. All of these throw Error(environment) with the system's own words, also when
  // another process writes to this journal.
  void append(const TuneRecord&);

 private:
  JournalWriter(const std::string& path, const Journal&, int flags);
  void write_line(const std::string& text);

  std::string path_;
  std::string fingerprint_;
  std::vector<TuneCandidate> candidates_;
  int file_ = -1;
};

}  // namespace mrb
