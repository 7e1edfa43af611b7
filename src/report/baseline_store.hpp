// Baselines that outlast the runs: a folder (or the work tree of a branch) with one result.json per run that was good,
// by machine and work, and the line of promotions that says which of them is the baseline, since when, and why.
//
//   <directory>/<key>/<run id>.json      as the run has written it
//   <directory>/<key>/promotions.jsonl   one line each, the last one holds
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/stored_run.hpp"

namespace mrb {

struct Promotion {
  std::string run_id;
  std::string when;  // UTC, ISO 8601
  std::string who;
  std::string why;
};

// What is comparable with each other: runs of the same variants on the same machine.
struct BaselineSeries {
  std::string key;
  std::vector<std::string> run_ids;     // in the order of time, as ids are
  std::vector<Promotion> promotions;    // in the order of time
  std::optional<Promotion> baseline{};  // the last promotion, unless its run was removed
};

// Of a run: a hash of its machine (StoredRun::fingerprint, which compare asks for too) and of all its variants' ids.
std::string baseline_key(const StoredRun&);

// Throws when this run must never be part of a baseline, naming every reason: Error(partial) when it did not come to its
// end or a variant failed, Error(wrong_result) when one did other work than its baseline, Error(not_comparable) when
// doctor warned of the machine or its numbers are not measured.
void refuse_as_baseline(const StoredRun&);

// What is changed on disk is complete at every moment (replace_file()). Throws Error(environment) with the system's words
// when it cannot be, Error(config) when there is no such run or a file is not one of ours.
class BaselineStore {
 public:
  explicit BaselineStore(std::string directory) : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }

  std::vector<BaselineSeries> all() const;                    // by key
  BaselineSeries series(const std::string& key) const;        // empty when there is none
  BaselineSeries series_with(const std::string& name) const;  // `name`: a key, or the id of a run
  StoredRun read(const BaselineSeries&, const std::string& run_id) const;
  std::vector<StoredRun> read_all(const BaselineSeries&) const;

  // `result_json` is what `run` was read from. Throws Error(config) when a run of this id is there already.
  void add(const StoredRun& run, const std::string& result_json) const;
  void promote(const BaselineSeries&, const Promotion&) const;
  void remove(const BaselineSeries&, const std::string& run_id) const;

 private:
  std::string path(const std::string& key, const std::string& file) const;

  std::string directory_;
};

}  // namespace mrb
