// The configuration to use from now on.
#pragma once

#include <string>
#include <vector>

#include "bench/experiment.hpp"
#include "report/run_info.hpp"

namespace mrb {

// What to use for one workload.
struct TunedConfig {
  std::string file;  // "tuned.yaml"; of further workloads "tuned-2.yaml" and so on
  std::string yaml;  // what --config accepts: the variant that won, with why, or the baseline when none is faster
};

// One for every workload whose baseline has run.
std::vector<TunedConfig> tuned_configs(const RunInfo&, const RunRecord&);

// "+2.1% [+1.2%, +3.0%]", the interval with 95% confidence.
std::string ratio_text(const RatioEstimate&);

}  // namespace mrb
