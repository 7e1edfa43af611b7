// What a run's launches say of its variants.
#pragma once

#include <vector>

#include "bench/experiment.hpp"

namespace mrb {

// Fills in tokens_per_s, against_baseline and what is known of the work of every result that is done, from its
// launches. Only blocks in which both the variant and its baseline ran are compared: the ratio of a block is that of
// the geometric means of their launches in it. A variant that does other work is not compared.
void compare_results(std::vector<Result>&);

// The log ratios, one per block, of a variant's tokens a second to its baseline's.
std::vector<double> block_log_ratios(const Result& variant, const Result& baseline);

// The baseline of this result's workload, which may be itself; null when it has not run.
const Result* find_baseline(const std::vector<Result>&, const Result&);

// The variant to use for this baseline's workload: the one with the highest ratio among those shown to be faster, or
// the baseline itself when none is.
const Result& choose(const std::vector<Result>&, const Result& baseline);

}  // namespace mrb
