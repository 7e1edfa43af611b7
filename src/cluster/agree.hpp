// Failing together: what one rank could not do, no rank goes on without.
#pragma once

#include <functional>

#include "cluster/bootstrap.hpp"

namespace mrb {

// Collective. Runs `work` on every rank; when it threw an Error on any, throws on all ranks the error of the
// lowest failing rank, its text saying which rank(s) and host it was when not all failed alike. Use it around
// what can fail on one rank alone: opening endpoints, reading files, allocating memory. `work` must not wait
// for other ranks.
void run_on_all(Bootstrap&, const std::function<void()>& work);

}  // namespace mrb
