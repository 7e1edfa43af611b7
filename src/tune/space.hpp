// What the tuner chooses from: the product of the settings' lists, less what cannot run here.
#pragma once

#include <string>
#include <vector>

#include "bench/experiment.hpp"
#include "bench/plan.hpp"
#include "config/settings.hpp"
#include "tune/tuner.hpp"

namespace mrb {

struct TuneAxis {
  std::string key;
  std::vector<std::string> values;
};

struct TuneSpace {
  std::vector<TuneAxis> axes;             // those with more than one value, in the order of the schema
  std::vector<TuneCandidate> candidates;  // the baseline first
  std::vector<Experiment> experiments;    // what each of them is
  std::vector<SkippedExperiment> excluded;
  std::vector<std::string> notes;
};

// Settings that were loaded for Purpose::tune. All candidates compute the same: axes may be method, and those that only
// round (wire types, the type of products). Predictions are left out. Throws Error(config) when nothing can run, when no
// setting has more than one value, or when an axis changes what is computed.
TuneSpace make_tune_space(const Settings&, const PlanLimits&);

// What --list-space prints: the axes, how many points there are, and what was left out, by reason.
std::string space_text(const TuneSpace&);

}  // namespace mrb
