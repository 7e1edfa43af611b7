#include "report/baseline_history.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/units.hpp"
#include "stats/intervals.hpp"
#include "stats/summary.hpp"

namespace mrb {

namespace {

struct GatedMetric {
  const char* name;
  double (*of)(const StoredLaunch&);
  Better better;
};
constexpr GatedMetric kGatedMetrics[] = {{"tokens_per_s", tokens_per_s, Better::higher},
                                         {"step_ms_p99", step_ms_p99, Better::lower}};

void add_run(MetricHistory& history, const StoredCell& cell, double (*metric)(const StoredLaunch&)) {
  std::vector<double> values, logs;
  for (const StoredLaunch& launch : cell.launches) {
    values.push_back(metric(launch));
    logs.push_back(std::log(values.back()));
  }
  std::sort(values.begin(), values.end());
  history.medians.push_back(quantile(values, 0.5));
  history.standard_errors.push_back(logs.size() < 2 ? 0 : robust_mean(logs).standard_error);
}

// Every run of a series has the same variants; those that were measured in all of them have a history.
std::vector<MetricHistory> metrics_of(const std::vector<StoredRun>& runs) {
  std::vector<MetricHistory> metrics;
  if (runs.empty()) return metrics;
  for (const StoredCell& newest : runs.back().cells) {
    std::vector<const StoredCell*> cells;
    for (const StoredRun& run : runs) {
      for (const StoredCell& cell : run.cells) {
        if (cell.id == newest.id && cell.status == "done" && !cell.launches.empty()) cells.push_back(&cell);
      }
    }
    if (cells.size() != runs.size()) continue;
    for (const GatedMetric& metric : kGatedMetrics) {
      MetricHistory history{.cell = newest.label, .metric = metric.name, .better = metric.better};
      for (const StoredCell* cell : cells) add_run(history, *cell, metric.of);
      metrics.push_back(std::move(history));
    }
  }
  return metrics;
}

std::string value_text(const MetricHistory& metric, double value) {
  return metric.better == Better::lower ? fmt::format("{:.2f}", value) : fmt::format("{:.0f}", value);
}

std::string name_of(const MetricHistory& metric) {
  return metric.better == Better::lower ? "step p99, ms" : "tokens/s";
}

std::string run_line(const BaselineHistory& history, std::size_t index) {
  const StoredRun& run = history.runs[index];
  std::string line =
      fmt::format("  {:>3} {:<28} {:<14}", index + 1, run.id, run.commit.empty() ? "-" : run.commit.substr(0, 12));
  for (const MetricHistory& metric : history.metrics) {
    if (metric.better == Better::higher) line += fmt::format(" {:>12}", value_text(metric, metric.medians[index]));
  }
  if (static_cast<int>(index) == history.baseline_index) line += "  baseline";
  return line + "\n";
}

std::string change_line(const BaselineHistory& history, const MetricHistory& metric, const ChangePoint& change) {
  const auto index = static_cast<std::size_t>(change.index);
  const bool is_accepted = change.index <= history.baseline_index;
  return fmt::format("{}: {}, {}: {:+.1f}%, {} to {}, between run {} ({}) and run {} ({}), p {:.2g}{}\n",
                     metric.is_slower(change) ? "slower" : "faster", metric.cell, name_of(metric),
                     (change.median_after / change.median_before - 1) * 100, value_text(metric, change.median_before),
                     value_text(metric, change.median_after), index, history.runs[index - 1].commit.substr(0, 12),
                     index + 1, history.runs[index].commit.substr(0, 12), change.p_value,
                     is_accepted ? ", before the baseline" : "");
}

std::string machine_text(const StoredRun& run) {
  return fmt::format("{} of {}, {}", counted(static_cast<std::size_t>(run.ranks), "rank"),
                     counted(run.nodes.size(), "node"), run.fingerprint.at("processor"));
}

[[noreturn]] void refuse_without_baseline(const BaselineStore& store, const StoredRun& run,
                                          const BaselineSeries& series) {
  std::string others;
  if (!series.run_ids.empty())
    others = fmt::format("\n  {} has {} runs, none of them promoted", series.key, series.run_ids.size());
  for (const BaselineSeries& other : store.all()) {
    if (other.key == series.key || !other.baseline) continue;
    const StoredRun baseline = store.read(other, other.baseline->run_id);
    std::string differences;
    for (const std::string& difference : machine_differences(baseline, run)) differences += "; " + difference;
    others += fmt::format("\n  {} is of {}", other.key,
                          differences.empty() ? "other variants" : "another machine" + differences);
  }
  throw Error(ErrorKind::not_comparable,
              fmt::format("there is no baseline of {}'s machine and variants ({}) in '{}'{}", run.id, series.key,
                          store.directory(), others),
              series.run_ids.empty() ? "moe-rl-bench baseline save RUN makes the first run one"
                                     : "moe-rl-bench baseline promote RUN --why TEXT");
}

}  // namespace

bool MetricHistory::is_slower(const ChangePoint& change) const {
  return (change.median_after < change.median_before) == (better == Better::higher);
}

BaselineHistory history_of(const BaselineStore& store, const BaselineSeries& series, int runs_max,
                           const ChangePolicy& policy) {
  BaselineHistory history{.series = series};
  history.runs_before = std::max(0, static_cast<int>(series.run_ids.size()) - runs_max);
  for (std::size_t i = static_cast<std::size_t>(history.runs_before); i < series.run_ids.size(); ++i) {
    history.runs.push_back(store.read(series, series.run_ids[i]));
    if (series.baseline && series.baseline->run_id == series.run_ids[i])
      history.baseline_index = static_cast<int>(history.runs.size()) - 1;
  }
  history.metrics = metrics_of(history.runs);
  ChangePolicy share = policy;
  share.alpha /= static_cast<double>(std::max<std::size_t>(history.metrics.size(), 1));
  history.runs_needed = samples_to_show_a_change(share);
  for (MetricHistory& metric : history.metrics) metric.changes = find_change_points(metric.medians, share);
  return history;
}

bool became_slower(const BaselineHistory& history) {
  return std::any_of(history.metrics.begin(), history.metrics.end(), [&](const MetricHistory& metric) {
    return std::any_of(metric.changes.begin(), metric.changes.end(), [&](const ChangePoint& change) {
      return change.index > history.baseline_index && metric.is_slower(change);
    });
  });
}

std::string history_text(const BaselineHistory& history) {
  std::string text = fmt::format("# {}: {} runs", history.series.key, history.series.run_ids.size());
  if (history.runs_before > 0) text += fmt::format(", the last {} of them", history.runs.size());
  if (!history.runs.empty()) text += " · " + machine_text(history.runs.back());
  text += "\n";
  for (const Promotion& promotion : history.series.promotions)
    text +=
        fmt::format("# promoted {} on {} by {}: {}\n", promotion.run_id, promotion.when, promotion.who, promotion.why);
  if (!history.series.baseline) text += "# there is no baseline: the one promoted last was removed\n";
  text += fmt::format("#\n# {:>3} {:<28} {:<14}", "run", "id", "commit");
  for (const MetricHistory& metric : history.metrics) {
    if (metric.better == Better::higher) text += " " + fmt::format("{:>12}", metric.cell.substr(0, 12));
  }
  text += "  tokens/s, median launch\n";
  for (std::size_t i = 0; i < history.runs.size(); ++i) text += run_line(history, i);
  text += "#\n";
  bool any = false;
  for (const MetricHistory& metric : history.metrics) {
    for (const ChangePoint& change : metric.changes) {
      text += change_line(history, metric, change);
      any = true;
    }
  }
  const int runs = static_cast<int>(history.runs.size());
  if (!any && runs < history.runs_needed) {
    return text + fmt::format("no change can be shown of {} runs: {} metrics need at least {}\n", runs,
                              history.metrics.size(), history.runs_needed);
  }
  return any ? text : text + "no change of level\n";
}

std::string baseline_list(const BaselineStore& store) {
  std::string text = fmt::format("# {:<16} {:>4}  {:<28} {:<14} {}\n", "key", "runs", "baseline", "commit", "machine");
  for (const BaselineSeries& series : store.all()) {
    const StoredRun shown = store.read(series, series.baseline ? series.baseline->run_id : series.run_ids.back());
    text += fmt::format("  {} {:>4}  {:<28} {:<14} {}\n", series.key, series.run_ids.size(),
                        series.baseline ? shown.id : "none", series.baseline ? shown.commit.substr(0, 12) : "-",
                        machine_text(shown));
  }
  return text;
}

RunComparison compare_with_baseline(const BaselineStore& store, const StoredRun& run, ComparisonOptions options) {
  constexpr int kRunsMax = 50;
  const BaselineSeries series = store.series(baseline_key(run));
  if (!series.baseline) refuse_without_baseline(store, run, series);
  std::vector<std::string> ids = series.run_ids;
  std::erase(ids, run.id);  // a run that is saved already has no part in what it is judged by
  if (ids.size() > kRunsMax) ids.erase(ids.begin(), ids.end() - kRunsMax);
  std::string widened;
  if (options.policy.session_sd_ratio == 0) {
    std::vector<StoredRun> runs;
    for (const std::string& id : ids) runs.push_back(store.read(series, id));
    for (const MetricHistory& metric : metrics_of(runs)) {
      const auto sd = session_sd_ratio(metric.medians, metric.standard_errors);
      if (sd) options.policy.session_sd_ratio = std::max(options.policy.session_sd_ratio, *sd);
    }
    if (options.policy.session_sd_ratio > 0)
      widened = fmt::format("runs of different days differ by {:.2f}% (sd, {} runs): the intervals allow for it",
                            options.policy.session_sd_ratio * 100, ids.size());
  }
  RunComparison comparison = compare_runs(store.read(series, series.baseline->run_id), run, options);
  if (!widened.empty()) comparison.warnings.push_back(widened);
  return comparison;
}

}  // namespace mrb
