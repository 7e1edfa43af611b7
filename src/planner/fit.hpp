// Turns physics into seconds: time = (sum of non-negative coefficients x physical times) x factors of what was used.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

namespace mrb {

struct FitSample {
  double measured_s = 0;
  std::vector<double> physical_s;    // one per term of the model; all samples have the same terms
  std::vector<std::string> effects;  // names of factors, such as "uccl-ep" and "uccl-ep p5.48xlarge"
};

struct Fit {
  std::vector<double> coefficients;
  std::map<std::string, double> log_factors;

  double predict_s(const FitSample&) const;  // a name that was never seen has the factor 1
};

// Least squares of relative errors, no coefficient below 0, by coordinate descent; then each factor from what is left,
// shrunk towards 1 as if one more sample had said so: no factor trusts a single row fully. Samples must not be empty.
// `least`, one for each term or none, raises the bound of 0.
Fit fit_samples(std::span<const FitSample>, std::span<const double> least = {});

}  // namespace mrb
