#include "planner/calibration.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"

namespace mrb {

namespace {

Published of_operation(const Published& published, const std::string& operation) {
  Published some;
  for (const Observation& one : published.observations) {
    if (one.operation == operation) some.observations.push_back(one);
  }
  if (some.observations.empty()) {
    throw Error(ErrorKind::config, "no published figure of operation " + operation + " can be read",
                "keep published_comm.csv and published_rl.csv in the folder calibration/ of --data");
  }
  return some;
}

Fit fit_all(const Published& published) {
  std::vector<FitSample> samples;
  for (const Observation& one : published.observations) samples.push_back(one.sample);
  return fit_samples(samples, least_coefficients(published.observations.front().operation));
}

double error_ratio(const Published& published) {
  return validate(published, FitChoice::by_campaign).lines.front().mean_error_ratio;
}

}  // namespace

double Calibration::train_s(const std::vector<double>& terms, const std::string& backend, const Instance& instance,
                            double micro_sequences) const {
  return train.predict_s({.physical_s = terms, .effects = training_effects(backend, instance, micro_sequences)});
}

bool Calibration::has_seen(const std::string& backend, const Instance& instance) const {
  return train.log_factors.contains(backend + " " + instance.name);
}

Calibration calibrate(const Published& published) {
  const Published train = of_operation(published, "train_step"), sync = of_operation(published, "weight_sync");
  std::set<std::string> backends;
  for (const Observation& one : train.observations) backends.insert(one.backend);
  return {.train = fit_all(train),
          .sync = fit_all(sync),
          .backends = {backends.begin(), backends.end()},
          .train_error_ratio = error_ratio(train),
          .sync_error_ratio = error_ratio(sync)};
}

}  // namespace mrb
