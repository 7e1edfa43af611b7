// What was measured of each candidate, as a reader of the trail wants it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>

#include "tune/surrogate.hpp"

namespace mrb {

// Per launched candidate the mean of its log times, without what its blocks add to all their launches: the additive
// model of candidates and blocks, fitted by least squares; the blocks' effects have the mean 0.
std::map<int, double> mean_log_times(std::span<const Observation>);

// Kendall's tau-a of pairs of values: the share of pairs of pairs that agree in order, less the share that disagree. None
// for fewer than four.
std::optional<double> kendall_tau(std::span<const std::pair<double, double>>);

}  // namespace mrb
