#include "report/run_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "stats/student.hpp"
#include "stats/summary.hpp"

namespace mrb {

namespace {

constexpr double kConfidence = 0.95;

// One value per launch.
struct PhaseSeries {
  std::vector<double> mean, slowest, fastest;
};

double mean_of(const std::vector<double>& values) {
  return summarize(values).mean;
}

// Student's interval of the mean; of one value that value.
PhaseSummary summarize_phase(const std::string& name, const PhaseSeries& series) {
  PhaseSummary phase{.name = name,
                     .ms_mean = mean_of(series.mean),
                     .ms_slowest = mean_of(series.slowest),
                     .ms_fastest = mean_of(series.fastest)};
  phase.ms_low = phase.ms_high = phase.ms_mean;
  const auto n = static_cast<double>(series.mean.size());
  if (n < 2) return phase;
  double squares = 0;
  for (const double value : series.mean) squares += (value - phase.ms_mean) * (value - phase.ms_mean);
  const double half = student_quantile((1 + kConfidence) / 2, n - 1) * std::sqrt(squares / (n - 1) / n);
  phase.ms_low = std::max(0.0, phase.ms_mean - half);
  phase.ms_high = phase.ms_mean + half;
  return phase;
}

std::vector<PhaseSummary> phases_of(const StoredCell& cell, int ranks) {
  std::map<std::string, PhaseSeries> by_name;
  std::size_t launches = 0;
  for (const StoredLaunch& launch : cell.launches) {
    double steps = 0;
    std::map<std::string, StoredPhase> sums;
    for (const StoredStep& step : launch.steps) {
      if (step.warmup) continue;
      ++steps;
      for (const auto& [name, phase] : step.phases) {
        sums[name].ns_max += phase.ns_max;
        sums[name].ns_min += phase.ns_min;
        sums[name].ns_sum += phase.ns_sum;
      }
    }
    if (steps == 0) continue;
    const double to_ms = 1e-6 / steps;
    for (const auto& [name, sum] : sums) {
      PhaseSeries& series = by_name[name];
      for (auto* values : {&series.mean, &series.slowest, &series.fastest}) values->resize(launches);  // absent: zero
      series.mean.push_back(sum.ns_sum * to_ms / std::max(1, ranks));
      series.slowest.push_back(sum.ns_max * to_ms);
      series.fastest.push_back(sum.ns_min * to_ms);
    }
    ++launches;
  }
  std::vector<PhaseSummary> phases;
  for (auto& [name, series] : by_name) {
    for (auto* values : {&series.mean, &series.slowest, &series.fastest}) values->resize(launches);
    phases.push_back(summarize_phase(name, series));
  }
  std::sort(phases.begin(), phases.end(), [](const auto& a, const auto& b) { return a.ms_mean > b.ms_mean; });
  return phases;
}

// As block_log_ratios() of bench/comparison.hpp, which knows live results: ratios of geometric means by block.
std::vector<double> block_log_ratios(const StoredCell& variant, const StoredCell& baseline) {
  const auto by_block = [](const StoredCell& cell) {
    std::map<int, std::vector<double>> logs;
    for (const StoredLaunch& launch : cell.launches) {
      if (const double rate = tokens_per_s(launch); rate > 0) logs[launch.block].push_back(std::log(rate));
    }
    return logs;
  };
  const auto variant_logs = by_block(variant), baseline_logs = by_block(baseline);
  std::vector<double> ratios;
  for (const auto& [block, logs] : variant_logs) {
    const auto other = baseline_logs.find(block);
    if (other != baseline_logs.end()) ratios.push_back(mean_of(logs) - mean_of(other->second));
  }
  return ratios;
}

const StoredCell* baseline_of(const StoredRun& run, const StoredCell& cell) {
  for (const StoredCell& other : run.cells) {
    if (other.is_baseline && other.workload_id == cell.workload_id && other.status == "done") return &other;
  }
  return nullptr;
}

void judge_variant(VariantSummary& summary, const StoredRun& run) {
  const StoredCell& cell = *summary.cell;
  const StoredCell* baseline = baseline_of(run, cell);
  if (cell.status != "done") {
    summary.verdict = cell.reason.empty() ? cell.status : cell.status + ": " + cell.reason;
  } else if (!cell.same_work) {
    summary.verdict = "other work than the baseline: no number";
  } else if (baseline == nullptr) {
    summary.verdict = "its baseline was not measured";
  } else if (baseline == &cell) {
    summary.verdict = "baseline";
  } else {
    summary.against_baseline = estimate_ratio(block_log_ratios(cell, *baseline));
    summary.verdict = verdict_text(summary.against_baseline->verdict);
  }
}

}  // namespace

std::vector<VariantSummary> summarize_run(const StoredRun& run) {
  std::vector<VariantSummary> summaries;
  for (const StoredCell& cell : run.cells) {
    VariantSummary summary{.cell = &cell, .launches = static_cast<int>(cell.launches.size())};
    std::vector<double> rates, steps_ms;
    PhaseSeries step_series;
    for (const StoredLaunch& launch : cell.launches) {
      rates.push_back(tokens_per_s(launch));
      if (const double mean_ms = step_ms_mean(launch); mean_ms > 0) {
        for (auto* values : {&step_series.mean, &step_series.slowest, &step_series.fastest}) values->push_back(mean_ms);
      }
      for (const StoredStep& step : launch.steps) {
        if (step.warmup) continue;
        steps_ms.push_back(step.wall_ns / 1e6);
        summary.logical_bytes += step.logical_bytes;
        summary.wire_bytes += step.wire_bytes;
      }
    }
    summary.steps = static_cast<int>(steps_ms.size());
    if (!steps_ms.empty()) {
      std::sort(steps_ms.begin(), steps_ms.end());
      summary.step_ms_median = quantile(steps_ms, 0.5);
      summary.step_ms_p99 = quantile(steps_ms, 0.99);
      summary.logical_bytes /= summary.steps;
      summary.wire_bytes /= summary.steps;
      const Summary rate = summarize(rates);
      summary.tokens_per_s_median = rate.median;
      summary.variation_launches_ratio = rate.variation;
      summary.tokens_per_s_interval = median_interval(rates, kConfidence);
      summary.step = summarize_phase("step", step_series);
      summary.phases = phases_of(cell, run.ranks);
    }
    judge_variant(summary, run);
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::string carried_by(const StoredCell& cell) {
  if (cell.launches.empty()) return "-";
  return fmt::format("{} ({})", cell.launches.front().transport, cell.launches.front().provider);
}

}  // namespace mrb
