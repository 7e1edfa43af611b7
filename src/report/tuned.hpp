// The configuration to use from now on.
#pragma once

#include <string>

#include "bench/experiment.hpp"
#include "report/run_info.hpp"

namespace mrb {

// YAML that --config accepts: the variant that won, with why, or the baseline when no difference is shown. Of several
// workloads, the first one's. Empty while there is nothing to choose from.
std::string tuned_yaml(const RunInfo&, const RunRecord&);

// "2.1% faster than ... [1.2%, 3.0%]": one line on a variant against its baseline.
std::string ratio_text(const RatioEstimate&);

}  // namespace mrb
