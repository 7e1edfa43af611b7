// The page people read in the terminal.
#pragma once

#include <string>

#include "bench/experiment.hpp"
#include "report/run_info.hpp"

namespace mrb {

// Header lines begin with '#', so that `grep -v '^#'` leaves the data: a row per variant, then a row per phase of the
// baseline and of the chosen variant.
std::string run_table(const RunInfo&, const RunRecord&, const std::string& folder);

}  // namespace mrb
