#include "tune/space.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/units.hpp"
#include "bench/dispatcher_options.hpp"
#include "config/fields.hpp"

namespace mrb {

namespace {

// Work by the schema, because rounding changes losses; but a choice that people make for speed.
constexpr std::array<std::string_view, 3> kRoundingKeys = {"dispatcher.dispatch_dtype", "dispatcher.combine_dtype",
                                                           "compute.dtype"};

bool only_rounds(const std::string& key) {
  return std::ranges::find(kRoundingKeys, key) != kRoundingKeys.end();
}

std::vector<TuneAxis> axes_of(const Settings& settings) {
  std::vector<TuneAxis> axes;
  std::string work;
  for (const Setting& setting : settings.fields) {
    if (setting.values.size() < 2) continue;
    if (find_field(setting.key)->kind == FieldKind::workload && !only_rounds(setting.key)) {
      work += fmt::format("{}{} ({})", work.empty() ? "" : ", ", setting.key, setting.origin);
    }
    axes.push_back({setting.key, setting.values});
  }
  if (!work.empty()) {
    throw Error(ErrorKind::config, fmt::format("the winner may differ with what is computed, and so do {}", work),
                "give these one value, and tune once for each");
  }
  if (axes.empty()) {
    throw Error(
        ErrorKind::config, "no setting has more than one value, so there is nothing to choose from",
        "give lists, as --dispatcher alltoall,rank_dedup --compute-threads 1,2, or a file like configs/tune.yaml");
  }
  return axes;
}

// Whether some value of the axis would mean something to this configuration: 0 may be what switches a field off.
bool applies(const TuneAxis& axis, const Field& field, Config config) {
  return !field.applies || std::ranges::any_of(axis.values, [&](const std::string& value) {
    field.set(config, value);
    return field.applies(config);
  });
}

// The place of the value among the axis' values; -1 where the axis means nothing, so that no local move changes it.
int level_of(const TuneAxis& axis, const Config& config) {
  const Field& field = *find_field(axis.key);
  if (!applies(axis, field, config)) return -1;
  return static_cast<int>(std::ranges::find(axis.values, field.get(config)) - axis.values.begin());
}

TuneCandidate candidate_of(const Experiment& experiment, const Config& baseline, const std::vector<TuneAxis>& axes,
                           int ranks_per_node) {
  const Config& config = experiment.config;
  const TransportConfig& transport = config.transport;
  TuneCandidate candidate{.name = experiment.label,
                          .family = config.dispatcher.name + " " + transport.name +
                                    (transport.name == "libfabric" ? "/" + transport.provider : ""),
                          .hash = experiment.id};
  for (const TuneAxis& axis : axes) {
    const Field& field = *find_field(axis.key);
    candidate.levels.push_back(level_of(axis, config));
    if (field.get(config) != field.get(baseline)) ++candidate.changes;
  }
  const DispatcherOptions options = dispatcher_options(config, ranks_per_node);
  candidate.memory_bytes = static_cast<double>(estimate_memory_bytes(config) +
                                               dispatcher_capabilities(config.dispatcher.name, options).buffer_bytes);
  return candidate;
}

// Rounding axes are part of a label like workload, and their first values are the baseline's.
std::size_t baseline_of(const Plan& plan) {
  const auto at = std::ranges::find_if(plan.experiments, &Experiment::is_baseline);
  return static_cast<std::size_t>(at - plan.experiments.begin());
}

}  // namespace

TuneSpace make_tune_space(const Settings& settings, const PlanLimits& limits) {
  TuneSpace space;
  space.axes = axes_of(settings);
  Plan plan = make_plan(settings, limits);
  std::rotate(plan.experiments.begin(), plan.experiments.begin() + static_cast<std::ptrdiff_t>(baseline_of(plan)),
              plan.experiments.begin() + static_cast<std::ptrdiff_t>(baseline_of(plan)) + 1);
  space.experiments = std::move(plan.experiments);
  space.excluded = std::move(plan.skipped);
  space.notes = std::move(plan.notes);
  const Config& baseline = space.experiments.front().config;
  for (const Experiment& experiment : space.experiments)
    space.candidates.push_back(candidate_of(experiment, baseline, space.axes, limits.ranks_per_node));
  if (std::ranges::any_of(space.axes, [](const TuneAxis& axis) { return only_rounds(axis.key); })) {
    space.notes.push_back(
        "candidates round differently, so their losses differ: each dispatcher is checked against the reference at its "
        "own types");
  }
  return space;
}

std::string space_text(const TuneSpace& space) {
  std::string text;
  std::size_t product = 1;
  for (const TuneAxis& axis : space.axes) {
    text += fmt::format("axis {:<28} {}\n", axis.key, fmt::join(axis.values, " "));
    product *= axis.values.size();
  }
  const std::size_t points = space.candidates.size() + space.excluded.size();
  text += fmt::format("{} combinations, {} of them alike (differ only in what means nothing there)\n", product,
                      product - points);
  text += fmt::format("{} can run here, {} cannot\n", space.candidates.size(), space.excluded.size());
  text += fmt::format("baseline: {}\n", space.candidates.front().name);
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const SkippedExperiment& skipped : space.excluded) by_reason[skipped.reason].push_back(skipped.experiment.label);
  for (const auto& [reason, labels] : by_reason) {
    text += fmt::format("excluded {:>4}: {}\n", labels.size(), reason);
    constexpr std::size_t kShown = 3;
    for (std::size_t i = 0; i < std::min(labels.size(), kShown); ++i)
      text += fmt::format("                 {}\n", labels[i]);
    if (labels.size() > kShown) text += fmt::format("                 and {} more\n", labels.size() - kShown);
  }
  for (const std::string& note : space.notes) text += "note: " + note + "\n";
  return text;
}

}  // namespace mrb
