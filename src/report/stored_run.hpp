// A run read back from its result.json: what comparisons and reports are made from, without the machine that ran it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mrb {

struct StoredPhase {
  double ns_max = 0;  // of the slowest rank
  double ns_min = 0;  // of the fastest: what is above it is waiting
  double ns_sum = 0;  // over ranks
};

struct StoredStep {
  int step = 0;  // of its launch
  bool warmup = false;
  double wall_ns = 0;
  double tokens = 0;                   // prompt and response
  double loss = 0, log_prob_mean = 0;  // not a number where unknown
  double logical_bytes = 0, wire_bytes = 0;
  std::map<std::string, StoredPhase> phases;
};

struct StoredLaunch {
  int block = 0;
  int index = 0;
  std::string transport, provider;
  std::vector<StoredStep> steps;
};

struct StoredCell {
  std::string id, workload_id, label;
  bool is_baseline = false;
  std::string status, reason, source;
  std::map<std::string, std::string> params;
  std::vector<StoredLaunch> launches;
  bool same_work = true;      // as the run's own baseline
  double work_tolerance = 0;  // relative, of losses; 0: unknown
  int lag = 0;                // policy_lag() (bench/experiment.hpp)
};

struct StoredSetting {
  std::string key;
  std::vector<std::string> values;
  std::string origin;
};

struct StoredNode {
  std::string host, kernel, processor;
  int cores_online = 0, cores_allowed = 0;
  double memory_bytes = 0;
};

struct StoredRun {
  std::string file;
  std::string session;  // of a side of an A/B session: its id
  std::string id, started, ended, commit, version, build, status;
  std::vector<std::string> arguments, notes;
  std::vector<StoredSetting> settings;
  std::vector<StoredNode> nodes;
  std::string compute_device, compute_library;
  std::map<std::string, std::string> environment;  // variables of the libraries
  int ranks = 0;
  std::map<std::string, std::string> fingerprint;  // of what must be equal for numbers to be comparable
  std::map<std::string, std::string> libraries;    // as loaded
  std::vector<std::string> taints;  // why doctor calls its numbers not comparable
  std::vector<StoredCell> cells;
};

// `name`: a result.json, a run's folder, or a run's id below `results_dir`. Throws Error(config) when there is none or
// it is not one of our results, with all faults of it, each with its place ("cells[3].launches[0]: ..."); and
// Error(not_comparable) for a schema newer than this program's. Any text is survived.
StoredRun read_stored_run(const std::string& name, const std::string& results_dir);

// The same of a text; `file` is for messages.
StoredRun parse_stored_run(const std::string& text, const std::string& file);

// Of the counted steps: tokens a second, their mean time, and its 99th percentile (linear between ranks). A launch
// without counted steps has 0.
double tokens_per_s(const StoredLaunch&);
double step_ms_mean(const StoredLaunch&);
double step_ms_p99(const StoredLaunch&);

}  // namespace mrb
