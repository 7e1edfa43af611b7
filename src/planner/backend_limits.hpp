// What published dispatch kernels refuse, so that no plan recommends what does not start.
#pragma once

#include <string>

#include "config/model_shape.hpp"
#include "planner/instance.hpp"

namespace mrb {

// Why `backend` cannot dispatch among `ranks` ranks, or nothing. Limits as read in the kernels' sources: DeepEP v1
// compiles 2, 4 or 8 ranks on a node and 2, 3, 4, 6, 8, 12, 16, 18 or 20 nodes of 8, with 32 experts a token at most;
// UCCL-EP has the same kernels, and a buffer whose size overflows above 64 ranks.
std::string why_not(const std::string& backend, const ModelShape&, const Instance&, int ranks);

}  // namespace mrb
