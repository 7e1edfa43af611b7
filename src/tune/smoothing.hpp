// A cost model's error on one candidate is mostly its own, while what the axes do is seen on many candidates at once.
#pragma once

#include <vector>

#include "tune/tuner.hpp"

namespace mrb {

// The part of the logarithms of predicted_s that effects of single axes and of pairs of axes explain, per candidate; the
// mean of all where there is no prediction. The effects of one axis, or of one pair, are shrunk towards none as far as
// chance alone would make their levels differ (James and Stein's estimator in its empirical Bayes form; Efron and
// Morris, JASA 70, 1975), and are found one after the other until they stand still (backfitting).
std::vector<double> smooth_log_predictions(const std::vector<TuneCandidate>&);

}  // namespace mrb
