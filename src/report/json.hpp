// The whole run as JSON: what a machine reads, and what reports can be made from again.
#pragma once

#include <string>

#include "bench/experiment.hpp"
#include "report/run_info.hpp"

namespace mrb {

constexpr int kResultSchemaVersion = 1;

// Raw samples included, SI base units (nanoseconds and bytes for what is counted), no NaN: what is unknown is null.
std::string result_json(const RunInfo&, const RunRecord&);

}  // namespace mrb
