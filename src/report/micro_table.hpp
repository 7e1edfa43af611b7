// What `micro` found: a table in the manner of nccl-tests, and all of it as JSON.
#pragma once

#include <string>

#include "bench/micro.hpp"
#include "report/run_info.hpp"

namespace mrb {

// Lines that begin with '#' are words; the others are numbers, of which the first nine are nccl-tests' columns of an
// operation: size, count, type, redop, root, time, algbw, busbw, #wrong.
std::string micro_table(const RunInfo&, const MicroRecord&);

// Raw samples included: nanoseconds and bytes.
std::string micro_json(const RunInfo&, const MicroRecord&);

}  // namespace mrb
