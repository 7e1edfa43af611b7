#include "report/run_comparison.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "bench/experiment.hpp"
#include "stats/summary.hpp"

namespace mrb {

namespace {

struct CellPair {
  const StoredCell* before;
  const StoredCell* after;
};

std::string carriers(const StoredCell& cell) {
  if (cell.launches.empty()) return "";
  return fmt::format("{}, {} {}", cell.source, cell.launches.front().transport, cell.launches.front().provider);
}

// Whether the n-th variants of both do the same work, for all n.
bool same_works(const StoredRun& before, const StoredRun& after) {
  return std::equal(before.cells.begin(), before.cells.end(), after.cells.begin(), after.cells.end(),
                    [](const StoredCell& a, const StoredCell& b) { return a.workload_id == b.workload_id; });
}

bool share_ids(const StoredRun& before, const StoredRun& after) {
  std::set<std::string> ids;
  for (const StoredCell& cell : before.cells) ids.insert(cell.id);
  return std::any_of(after.cells.begin(), after.cells.end(),
                     [&](const StoredCell& cell) { return ids.contains(cell.id); });
}

// Cells of the same id; or, when no id is in both or the runs are pairs, those in the same place, when they do the
// same work.
std::vector<CellPair> pair_cells(const StoredRun& before, const StoredRun& after, bool paired,
                                 std::vector<std::string>& differences) {
  std::vector<CellPair> pairs;
  const bool by_place = (paired || !share_ids(before, after)) && same_works(before, after);
  if (by_place) {
    for (std::size_t i = 0; i < before.cells.size(); ++i) pairs.push_back({&before.cells[i], &after.cells[i]});
  } else {
    std::map<std::string, const StoredCell*> by_id;
    for (const StoredCell& cell : after.cells) by_id[cell.id] = &cell;
    for (const StoredCell& cell : before.cells) {
      const auto other = by_id.find(cell.id);
      if (other != by_id.end()) pairs.push_back({&cell, other->second});
      if (other == by_id.end())
        differences.push_back(fmt::format("variant {} ({}) is missing after", cell.label, cell.id));
    }
  }
  std::vector<CellPair> usable;
  for (const CellPair& pair : pairs) {
    if (pair.before->status == "skipped" && pair.after->status == "skipped") continue;
    if (pair.before->status != "done" || pair.after->status != "done") {
      differences.push_back(fmt::format("variant {} is '{}' before and '{}' after", pair.before->label,
                                        pair.before->status, pair.after->status));
      continue;
    }
    if (!by_place && carriers(*pair.before) != carriers(*pair.after)) {
      differences.push_back(fmt::format("variant {}: '{}' before, '{}' after", pair.before->label,
                                        carriers(*pair.before), carriers(*pair.after)));
    }
    usable.push_back(pair);
  }
  return usable;
}

GateSamples samples_of(const CellPair& pair, double (*metric)(const StoredLaunch&), Better better, double margin,
                       bool paired) {
  GateSamples samples{.paired = paired, .better = better, .margin_ratio = margin};
  for (const StoredLaunch& launch : pair.before->launches) samples.before.push_back(metric(launch));
  for (const StoredLaunch& launch : pair.after->launches) samples.after.push_back(metric(launch));
  return samples;
}

// The first launches of both, step by step, as work_difference() and work_tolerance() have it within one run.
bool same_losses(const CellPair& pair) {
  const double tolerance = std::max(pair.before->work_tolerance, pair.after->work_tolerance);
  if (pair.before->lag != pair.after->lag || pair.after->lag < 0) return true;  // they train different curves anyway
  if (tolerance == 0 || pair.before->launches.empty() || pair.after->launches.empty()) return true;
  const auto &one = pair.before->launches.front().steps, &other = pair.after->launches.front().steps;
  for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
    const double difference = work_difference({.loss = one[i].loss, .log_prob_mean = one[i].log_prob_mean},
                                              {.loss = other[i].loss, .log_prob_mean = other[i].log_prob_mean});
    if (!(difference <= tolerance)) return false;
  }
  return true;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

}  // namespace

std::vector<std::string> machine_differences(const StoredRun& before, const StoredRun& after) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : before.fingerprint) {
    const auto other = after.fingerprint.find(key);
    if (other == after.fingerprint.end() || other->second == value) continue;
    differences.push_back(fmt::format("{}: '{}' before, '{}' after", key, value, other->second));
  }
  return differences;
}

RunComparison compare_runs(const StoredRun& before, const StoredRun& after, const ComparisonOptions& options) {
  const bool one_session = !before.session.empty() && before.session == after.session;
  RunComparison comparison{.before_id = before.id, .after_id = after.id, .paired = one_session};
  std::vector<std::string> differences = machine_differences(before, after);
  for (const StoredRun* run : {&before, &after}) {
    for (const std::string& taint : run->taints)
      differences.push_back(fmt::format("doctor found of {}: {}", run->id, taint));
  }
  const auto pairs = pair_cells(before, after, one_session, differences);
  if (pairs.empty()) differences.push_back("no variant was measured in both");
  if (pairs.empty() || (!differences.empty() && !options.allow_mismatch)) {
    throw Error(ErrorKind::not_comparable,
                fmt::format("{} and {} cannot be compared:\n  {}", before.id, after.id, fmt::join(differences, "\n  ")),
                pairs.empty()
                    ? "measure the same configuration in both"
                    : "measure both with the same configuration on the same machine, or say --allow-mismatch");
  }
  comparison.warnings = differences;
  for (const StoredCell& cell : after.cells) {
    const auto is_it = [&](const CellPair& pair) { return pair.after == &cell; };
    if (cell.status == "done" && std::none_of(pairs.begin(), pairs.end(), is_it))
      comparison.warnings.push_back(fmt::format("variant {} is new: it is not gated", cell.label));
  }
  for (const auto& [name, version] : before.libraries) {
    const auto other = after.libraries.find(name);
    if (other != after.libraries.end() && other->second != version)
      comparison.warnings.push_back(fmt::format("library {}: {} before, {} after", name, version, other->second));
  }
  if (!one_session) {
    comparison.warnings.push_back(
        "unpaired: what changed on the machine between the two runs counts as a change of the program");
  }

  std::vector<GateSamples> family;
  for (const CellPair& pair : pairs) {
    comparison.wrong_work |= !pair.after->same_work || !same_losses(pair);
    const auto add = [&](const char* name, double (*metric)(const StoredLaunch&), Better better, double margin) {
      family.push_back(samples_of(pair, metric, better, margin, one_session));
      comparison.metrics.push_back({.cell = pair.after->label,
                                    .metric = name,
                                    .before = median_of(family.back().before),
                                    .after = median_of(family.back().after),
                                    .margin_ratio = margin});
    };
    add("tokens_per_s", tokens_per_s, Better::higher, options.throughput_margin_ratio);
    add("step_ms_p99", step_ms_p99, Better::lower, options.step_margin_ratio);
  }
  const auto results = judge(family, options.policy);
  for (std::size_t i = 0; i < results.size(); ++i) comparison.metrics[i].result = results[i];
  comparison.verdict = worst_verdict(results);
  return comparison;
}

}  // namespace mrb
