// What a user allows a search to cost.
#pragma once

#include <string>
#include <vector>

#include "tune/tuner.hpp"

namespace mrb {

// "30m" (also s, h), "200 launches", "50 gpu-h": several limits hold together. A rank counts as one GPU, so GPU hours are
// hours times `ranks`. Throws Error(config) with all that are none of these.
TuneBudget parse_budget(const std::vector<std::string>& texts, int ranks);

}  // namespace mrb
