// How wrong the model is on what others have measured: each campaign is predicted by a fit that has not seen it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/published.hpp"

namespace mrb {

enum class FitChoice { by_campaign, none };  // none: physics at line rate and peak alone

struct ValidationLine {
  std::string operation, regime;
  int rows = 0;
  double mean_error_ratio = 0;  // mean of |predicted - measured| / measured
  double median_error_ratio = 0;
  double worst_error_ratio = 0;
  std::string worst_id;
};

struct Validation {
  std::vector<ValidationLine> lines;
  // Pairs of backends on the same training step that differ by 6% or more, and how many of them are predicted in the
  // right order.
  int pairs = 0;
  int pairs_in_order = 0;
  int left_out = 0;
};

Validation validate(const Published&, FitChoice);

}  // namespace mrb
