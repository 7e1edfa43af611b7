// What a report says besides the results: who ran what, where, when.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/version.hpp"
#include "bench/experiment.hpp"
#include "cluster/machine.hpp"
#include "config/settings.hpp"

namespace mrb {

struct RankInfo {
  int rank = 0;
  std::string host;
};

struct RunInfo {
  std::string id;       // also the folder's name: time and a few random digits
  std::string started;  // UTC, ISO 8601
  std::vector<std::string> arguments;
  BuildInfo build;
  Machine machine;  // rank 0's
  std::vector<RankInfo> ranks;
  std::vector<LibraryLine> libraries;
  std::string compute_device;   // and its library, in their own words
  std::string compute_library;
  std::map<std::string, std::string> environment;
  Settings settings;
};

// UTC now, ISO 8601: "2026-12-01T10:15:00Z".
std::string utc_now();

}  // namespace mrb
