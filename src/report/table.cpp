#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/units.hpp"
#include "bench/comparison.hpp"
#include "report/tuned.hpp"

namespace mrb {

namespace {

// Means over the counted steps of all launches of one variant.
struct PhaseRow {
  std::string name;
  double slowest_ms = 0;
  double fastest_ms = 0;
  double mean_ms = 0;  // over ranks too: these add up to the step
};

struct StepMeans {
  int steps = 0;
  int marked = 0;
  double wall_ms = 0;
  double logical_bytes = 0;
  double wire_bytes = 0;
  double response_tokens = 0;
  std::vector<PhaseRow> phases;  // longest first
};

StepMeans mean_step(const Result& result) {
  StepMeans means;
  std::map<std::string, PhaseRow> rows;
  const double ranks = result.experiment.config.ranks;
  for (const LaunchSample& launch : result.launches) {
    for (const StepSample& step : launch.steps) {
      if (step.warmup) continue;
      ++means.steps;
      means.marked += step.unaccounted_ratio_max > kUnaccountedRatioMax ? 1 : 0;
      means.wall_ms += ns_to_ms(step.wall_ns);
      means.logical_bytes += static_cast<double>(step.dispatch_logical_bytes);
      means.wire_bytes += static_cast<double>(step.dispatch_wire_bytes);
      means.response_tokens += static_cast<double>(step.response_tokens);
      for (const auto& [name, phase] : step.phases) {
        PhaseRow& row = rows[name];
        row.slowest_ms += ns_to_ms(phase.ns_max);
        row.fastest_ms += ns_to_ms(phase.ns_min);
        row.mean_ms += ns_to_ms(phase.ns_sum) / ranks;
      }
    }
  }
  const double steps = std::max(1, means.steps);
  for (double* value : {&means.wall_ms, &means.logical_bytes, &means.wire_bytes, &means.response_tokens}) *value /= steps;
  for (auto& [name, row] : rows) {
    row.name = name;
    for (double* value : {&row.slowest_ms, &row.fastest_ms, &row.mean_ms}) *value /= steps;
    means.phases.push_back(row);
  }
  std::sort(means.phases.begin(), means.phases.end(), [](const PhaseRow& a, const PhaseRow& b) { return a.mean_ms > b.mean_ms; });
  return means;
}

std::string carried_by(const Result& result) {
  if (result.launches.empty()) return "-";
  const LaunchSample& launch = result.launches.front();
  return launch.transport + " (" + launch.provider + ")";
}

// "1 rank", "4 ranks".
std::string counted(std::size_t count, const char* what) { return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"); }

std::string header(const RunInfo& info, const RunRecord& record) {
  const Config& config = record.results.front().experiment.config;
  std::set<std::string> hosts;
  for (const RankInfo& rank : info.ranks) hosts.insert(rank.host);
  std::string text = fmt::format("# moe-rl-bench {} ({}) · {} on {} ({}) · seed {}\n", info.build.version, info.build.commit,
                                 counted(info.ranks.size(), "rank"), counted(hosts.size(), "node"), info.machine.host, config.seed);
  text += fmt::format("# model {} · {} prompts x {} answers a step, synchronous and colocated · {} {} · {}\n", config.model.name,
                      config.grpo.prompts, config.grpo.group_size, config.compute.name, config.compute.dtype, info.compute_library);
  text += fmt::format("# {} of {} launches, each {} warm-up and {} counted steps, in {} of A B B A · source: measured · status: {}\n",
                      record.launches_done, record.launches_planned, config.measure.warmup_steps, config.measure.steps,
                      counted(static_cast<std::size_t>(record.blocks_done), "block"), record.status);
  for (const std::string& note : record.notes) text += "# note: " + note + "\n";
  return text;
}

std::string variant_rows(const RunRecord& record) {
  std::size_t width = 7;
  for (const Result& result : record.results) width = std::max(width, result.experiment.label.size());
  std::string text = fmt::format("#\n# {:<{}}  {:>10}  {:>8}  {:>6}  {:<26}  {:<20}  {}\n", "variant", width, "tokens/s", "step ms",
                                 "cv %", "against the baseline, 95%", "verdict", "bytes carried by");
  for (const Result& result : record.results) {
    if (result.status != ResultStatus::done) {
      text += fmt::format("# {:<{}}  {}: {}\n", result.experiment.label, width,
                          result.status == ResultStatus::failed ? "failed" : "skipped", result.reason.substr(0, result.reason.find('\n')));
      continue;
    }
    if (!result.same_work) {
      text += fmt::format("# {:<{}}  no number: its losses differ from the baseline's by {:.1e}\n", result.experiment.label, width,
                          result.loss_difference_max);
      continue;
    }
    const bool is_baseline = find_baseline(record.results, result) == &result;
    text += fmt::format("  {:<{}}  {:>10.0f}  {:>8.2f}  {:>6.1f}  {:<26}  {:<20}  {}\n", result.experiment.label, width,
                        result.tokens_per_s.median, mean_step(result).wall_ms, result.tokens_per_s.variation * 100,
                        is_baseline ? "-" : ratio_text(result.against_baseline),
                        is_baseline ? "baseline" : verdict_text(result.against_baseline.verdict), carried_by(result));
  }
  return text + "# tokens/s: prompt and response tokens of all ranks over wall time, median launch, warm-up left out\n";
}

std::string phase_rows(const Result& result) {
  const StepMeans means = mean_step(result);
  std::string text = fmt::format("#\n# phases of {}, a mean step\n# {:<30}  {:>10}  {:>10}  {:>8}\n", result.experiment.label,
                                 "phase", "slowest ms", "fastest ms", "share %");
  double total = 0;
  for (const PhaseRow& row : means.phases) total += row.mean_ms;
  for (const PhaseRow& row : means.phases) {
    text += fmt::format("  {:<30}  {:>10.3f}  {:>10.3f}  {:>8.1f}\n", row.name, row.slowest_ms, row.fastest_ms,
                        total > 0 ? row.mean_ms / total * 100 : 0);
  }
  text += fmt::format("  {:<30}  {:>10.3f}\n", "step", means.wall_ms);
  text += fmt::format("# dispatch and combine, all ranks, per step: {} logical (from the routing), {} wire (as handed to the transport); NIC counters: not read\n",
                      bytes_text(static_cast<std::uint64_t>(means.logical_bytes)), bytes_text(static_cast<std::uint64_t>(means.wire_bytes)));
  if (means.marked > 0) {
    text += fmt::format("# {} of {} steps are marked: phases and idle do not add up to the wall time within 1%\n", means.marked, means.steps);
  }
  return text;
}

std::string work_line(const RunRecord& record) {
  int same = 0, variants = 0;
  double difference = 0;
  std::set<std::pair<std::string, std::uint64_t>> checksums;
  for (const Result& result : record.results) {
    if (result.status != ResultStatus::done || result.launches.empty()) continue;
    ++variants;
    same += result.same_work ? 1 : 0;
    difference = std::max(difference, result.loss_difference_max);
    for (const LaunchSample& launch : result.launches) {
      if (!launch.steps.empty()) checksums.emplace(result.experiment.workload_id, launch.steps.back().token_checksum);
    }
  }
  std::set<std::string> workloads;
  for (const auto& [workload, checksum] : checksums) workloads.insert(workload);
  return fmt::format("#\n# work equivalence: {} of {} variants have the baseline's losses, step by step (largest relative difference {:.1e}); "
                     "generated tokens {}\n",
                     same, variants, difference, checksums.size() == workloads.size() ? "identical" : "differ in single samples");
}

}  // namespace

std::string run_table(const RunInfo& info, const RunRecord& record, const std::string& folder) {
  std::string text = header(info, record) + variant_rows(record);
  for (const Result& baseline : record.results) {
    if (!baseline.experiment.is_baseline || baseline.status != ResultStatus::done || baseline.launches.empty()) continue;
    const Result& winner = choose(record.results, baseline);
    text += phase_rows(baseline);
    if (&winner != &baseline) text += phase_rows(winner);
    text += fmt::format("#\n# use: {}{}\n", winner.experiment.label,
                        &winner == &baseline ? ", the baseline: no variant was shown to be faster"
                                             : ", " + ratio_text(winner.against_baseline) + " tokens/s");
  }
  return text + work_line(record) + fmt::format("# results: {0}/result.json{1}\n", folder, tuned_yaml(info, record).empty() ? "" : ", " + folder + "/tuned.yaml");
}

}  // namespace mrb
