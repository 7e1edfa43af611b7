// How much two launches of the same thing differ on this machine: below that no margin can be held.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "report/run_comparison.hpp"

namespace mrb {

struct NoiseFloor {
  std::string session;  // the A/A session it was measured in
  int pairs = 0;
  std::map<std::string, double> sd_pair_ratio;  // of the log ratio of a pair, by metric; of the noisiest variant
};

// The floor of one A/A comparison.
NoiseFloor noise_floor_of(const RunComparison&);

// Kept in <directory>/noise_floor.json, by machine and workload: reading gives that of this run's, if it was measured.
// Throws Error(config) when the file is not one of ours, Error(environment) when it cannot be written.
std::optional<NoiseFloor> read_noise_floor(const std::string& directory, const StoredRun&);
void write_noise_floor(const std::string& directory, const StoredRun&, const NoiseFloor&);

// Throws Error(config) that says how many pairs each margin needs, when that is more than `pairs_max`.
void refuse_below_floor(const NoiseFloor&, const ComparisonOptions&, int pairs_max);

}  // namespace mrb
