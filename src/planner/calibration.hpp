// What the published figures teach the cost model, and how far it may be trusted.
#pragma once

#include <string>
#include <vector>

#include "planner/published.hpp"
#include "planner/validation.hpp"

namespace mrb {

struct Calibration {
  Fit train;
  Fit sync;
  std::vector<std::string> backends;  // of which training steps are published
  double train_error_ratio = 0;       // mean, each campaign by a fit to the others
  double sync_error_ratio = 0;

  double train_s(const std::vector<double>& terms, const std::string& backend, const Instance&,
                 double micro_sequences) const;
  bool has_seen(const std::string& backend, const Instance&) const;
};

// Throws Error(config) when there is no training step or no weight sync among the figures.
Calibration calibrate(const Published&);

}  // namespace mrb
