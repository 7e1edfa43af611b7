// What a report says besides the results: who ran what, where, when.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/version.hpp"
#include "bench/experiment.hpp"
#include "cluster/machine.hpp"
#include "config/settings.hpp"
#include "doctor/diagnosis.hpp"

namespace mrb {

struct RankInfo {
  int rank = 0;
  std::string host;
  std::string cpus;  // that it may run on: "0-3,8"
  int threads = 1;   // where the configuration leaves their number to us
};

struct RunInfo {
  std::string id;       // also the folder's name: time and a few random digits
  std::string started;  // UTC, ISO 8601
  std::string ended;    // empty while it runs
  std::vector<std::string> arguments;
  BuildInfo build;
  std::vector<RankInfo> ranks;
  std::vector<Machine> nodes;  // rank 0's first, each once, as its first rank sees it
  std::vector<LibraryLine> libraries;
  std::string compute_device;  // and its library, in their own words
  std::string compute_library;
  std::map<std::string, std::string> environment;
  Settings settings;
  Diagnosis diagnosis;  // before anything ran
};

// UTC now, ISO 8601: "2026-12-01T10:15:00Z".
std::string utc_now();

}  // namespace mrb
