#include "report/tune_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>

#include "base/units.hpp"
#include "config/faults.hpp"
#include "report/config_json.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

const TuneCandidate& candidate(const TuneOutcome& outcome, int index) {
  return outcome.journal.head.candidates.at(static_cast<std::size_t>(index));
}

double elapsed_s(const TuneOutcome& outcome) {
  double sum_s = 0;
  for (const TuneRecord& record : outcome.journal.records) sum_s += record.elapsed_s;
  return sum_s;
}

std::string gain_text(const TuneAnswer& answer) {
  const auto percent = [](double ratio) { return fmt::format("{:+.1f}%", (ratio - 1) * 100); };
  return fmt::format("{} [{}, {}]", percent(answer.gain_ratio), percent(answer.gain_low), percent(answer.gain_high));
}

bool has_gain(const TuneAnswer& answer) {
  return answer.finalist && answer.gain_low > 0 && answer.gain_high > 0;
}

// The answer in a sentence.
std::string answer_text(const TuneOutcome& outcome) {
  const TuneAnswer& answer = outcome.answer;
  const std::string winner = candidate(outcome, answer.winner).name;
  switch (answer.end) {
    case TuneEnd::confirmed:
      return fmt::format(
          "{}: {} speed against the baseline (95% interval, from fresh launches of the confirmation alone)", winner,
          gain_text(answer));
    case TuneEnd::no_difference_shown:
      return fmt::format("no difference shown: keep the baseline, {}", winner);
    case TuneEnd::too_noisy:
      return fmt::format("too noisy to say: keep the baseline, {}", winner);
    case TuneEnd::budget:
      return fmt::format("nothing is confirmed within the budget: keep the baseline, {}", winner);
    case TuneEnd::no_baseline:
      return fmt::format("{} was the fastest; the baseline does not run", winner);
    case TuneEnd::nothing_ran:
      return "nothing ran";
  }
  return "";
}

// Of the launches of one candidate that measured nothing, the last one's.
const TuneRecord* last_failure(const TuneOutcome& outcome, int index) {
  const auto& records = outcome.journal.records;
  const auto at = std::find_if(records.rbegin(), records.rend(), [&](const TuneRecord& record) {
    return record.launch.candidate == index && record.outcome != LaunchOutcome::measured;
  });
  return at == records.rend() ? nullptr : &*at;
}

// Measured candidates from fast to slow, then those that failed, then how many nobody tried.
std::vector<int> shown_order(const TuneOutcome& outcome) {
  std::vector<int> order;
  for (int index = 0; index < static_cast<int>(outcome.trail.size()); ++index) {
    if (outcome.trail[static_cast<std::size_t>(index)].launches > 0) order.push_back(index);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    constexpr double kNever = 1e300;
    const auto key = [&](int index) {
      return outcome.trail[static_cast<std::size_t>(index)].measured_s.value_or(kNever);
    };
    return key(a) < key(b);
  });
  return order;
}

// What was tuned for: under another key the winner may be another.
std::vector<std::string> key_lines(const RunInfo& info, const TuneSpace& space, const TuneOutcome& outcome) {
  const Experiment& baseline = space.experiments.front();
  std::string shapes;
  std::istringstream lines(canonical_lines(baseline.config, FieldSet::workload));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("model")) shapes += (shapes.empty() ? "" : " ") + line;
  }
  return {"workload " + baseline.workload_id + ": " + shapes, "machine and build: " + outcome.journal.head.fingerprint,
          fmt::format("ranks: {}, metric: {}", info.ranks.size(), outcome.journal.head.metric)};
}

Json trail_json(const TuneOutcome& outcome, int index) {
  const TuneCandidate& of = candidate(outcome, index);
  const TuneTrail& trail = outcome.trail[static_cast<std::size_t>(index)];
  Json json = {{"hash", of.hash},
               {"name", of.name},
               {"predicted_s", of.predicted_s ? Json(*of.predicted_s) : Json(nullptr)},
               {"measured_s", trail.measured_s ? Json(*trail.measured_s) : Json(nullptr)},
               {"launches", trail.launches},
               {"changes", of.changes},
               {"memory_bytes", of.memory_bytes},
               {"dropped", trail.dropped}};
  if (const TuneRecord* failure = last_failure(outcome, index)) {
    json["failure"] = {{"outcome", launch_outcome_text(failure->outcome)}, {"reason", failure->reason}};
  }
  return json;
}

}  // namespace

TuneOutcome tune_outcome(Journal journal) {
  const Tuner tuner = replay(journal);
  return {.journal = std::move(journal),
          .answer = tuner.answer(),
          .trail = tuner.trail(),
          .is_over = !tuner.next().has_value()};
}

const std::vector<std::string>& tune_metrics() {
  static const std::vector<std::string> metrics = {"step_mean", "step_p99"};
  return metrics;
}

std::string tune_table(const TuneOutcome& outcome) {
  const JournalHead& head = outcome.journal.head;
  std::size_t width = 9;
  const std::vector<int> order = shown_order(outcome);
  for (const int index : order) width = std::max(width, candidate(outcome, index).name.size() + (index == 0 ? 11 : 0));
  std::string text = fmt::format(
      "# tune, measured: {} of the slowest rank; {} of {} candidates launched, {} launches, {:.0f} s\n", head.metric,
      order.size(), head.candidates.size(), outcome.journal.records.size(), elapsed_s(outcome));
  text += fmt::format("# {:<{}} {:>8} {:>9} {:>9}  {}\n", "candidate", width, "launches", "step ms", "modelled",
                      "what became of it");
  for (const int index : order) {
    const TuneTrail& trail = outcome.trail[static_cast<std::size_t>(index)];
    const TuneCandidate& of = candidate(outcome, index);
    const TuneRecord* failure = last_failure(outcome, index);
    std::string fate = trail.dropped;
    if (failure != nullptr && fate.find(failure->reason) == std::string::npos)
      fate += (fate.empty() ? "" : "; ") + std::string(launch_outcome_text(failure->outcome)) + ": " + failure->reason;
    text += fmt::format("  {:<{}} {:>8} {:>9} {:>9}  {}\n", of.name + (index == 0 ? " (baseline)" : ""), width,
                        trail.launches, trail.measured_s ? fmt::format("{:.2f}", *trail.measured_s * 1e3) : "-",
                        of.predicted_s ? fmt::format("{:.2f}", *of.predicted_s * 1e3) : "-", shown(fate, 200));
  }
  if (!outcome.is_over) return text + "# interrupted: no answer yet\n";
  text += "answer: " + answer_text(outcome) + "\n";
  const TuneAnswer& answer = outcome.answer;
  if (answer.rank_correlation)
    text += fmt::format("model and measurement: Kendall's tau {:.2f}\n", *answer.rank_correlation);
  for (const std::string& words : answer.words) text += "note: " + words + "\n";
  return text;
}

std::string tune_json(const RunInfo& info, const TuneSpace& space, const TuneOutcome& outcome) {
  const JournalHead& head = outcome.journal.head;
  const TuneAnswer& answer = outcome.answer;
  Json candidates = Json::array(), excluded = Json::array(), axes = Json::object();
  for (int index = 0; index < static_cast<int>(outcome.trail.size()); ++index)
    candidates.push_back(trail_json(outcome, index));
  for (const SkippedExperiment& skipped : space.excluded)
    excluded.push_back({{"name", skipped.experiment.label}, {"reason", skipped.reason}});
  for (const TuneAxis& axis : space.axes) axes[axis.key] = axis.values;
  const bool gain = has_gain(answer);
  const auto known = [](bool is_known, double value) { return is_known ? Json(value) : Json(nullptr); };
  const Json json = {
      {"tune_schema", 1},
      {"id", info.id},
      {"started", info.started},
      {"ended", info.ended},
      {"source", "measured"},
      {"metric", head.metric},
      {"status", outcome.is_over ? "over" : "interrupted"},
      {"answer",
       {{"end", tune_end_text(answer.end)},
        {"winner", candidate(outcome, answer.winner).hash},
        {"winner_name", candidate(outcome, answer.winner).name},
        {"finalist", answer.finalist ? Json(candidate(outcome, *answer.finalist).hash) : Json(nullptr)},
        {"gain_ratio", known(gain, answer.gain_ratio)},
        {"gain_low", known(gain, answer.gain_low)},
        {"gain_high", known(gain, answer.gain_high)},
        {"rank_correlation", known(answer.rank_correlation.has_value(), answer.rank_correlation.value_or(0))},
        {"words", answer.words}}},
      {"budget",
       {{"launches", head.policy.budget.launches},
        {"elapsed_s", head.policy.budget.elapsed_s},
        {"used_launches", outcome.journal.records.size()},
        {"used_s", elapsed_s(outcome)},
        {"used_rank_hours", elapsed_s(outcome) / 3600 * static_cast<double>(info.ranks.size())}}},
      {"key", key_lines(info, space, outcome)},
      {"fingerprint", head.fingerprint},
      {"environment", info.environment},
      {"axes", axes},
      {"candidates", candidates},
      {"excluded", excluded},
      {"notes", space.notes},
      {"winner_config", config_json(space.experiments.at(static_cast<std::size_t>(answer.winner)).config)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string tuned_yaml(const RunInfo& info, const TuneSpace& space, const TuneOutcome& outcome) {
  std::vector<std::string> comment = {
      fmt::format("Chosen by moe-rl-bench tune {}, {} launches, measured.", info.id, outcome.journal.records.size()),
      answer_text(outcome)};
  for (const std::string& words : outcome.answer.words) comment.push_back(words);
  comment.push_back("It holds for this, and for nothing else without measuring again:");
  for (const std::string& line : key_lines(info, space, outcome)) comment.push_back("  " + line);
  return config_yaml(space.experiments.at(static_cast<std::size_t>(outcome.answer.winner)).config, comment);
}

std::string tuned_environment(const RunInfo& info, const TuneSpace& space, const TuneOutcome& outcome) {
  const Config& config = space.experiments.at(static_cast<std::size_t>(outcome.answer.winner)).config;
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : info.environment) {
    if (name.starts_with("FI_") || name.starts_with("NCCL_") || name.starts_with("OFI_")) variables[name] = value;
  }
  if (config.transport.name == "libfabric") variables["FI_PROVIDER"] = config.transport.provider;
  if (config.compute.threads > 0) variables["OMP_NUM_THREADS"] = std::to_string(config.compute.threads);
  std::string text = fmt::format("# of {}; measured by moe-rl-bench tune {}\n", config.dispatcher.name, info.id);
  for (const auto& [name, value] : variables) text += name + "=" + value + "\n";
  return text;
}

std::string tuned_patch(const RunInfo& info, const TuneSpace& space, const TuneOutcome& outcome) {
  std::string text =
      "# kubectl patch configmap NAME --type merge --patch-file mpijob_patch.yaml, where NAME is the job's\ndata:\n"
      "  config.yaml: |\n";
  std::istringstream lines(tuned_yaml(info, space, outcome));
  for (std::string line; std::getline(lines, line);) text += line.empty() ? "\n" : "    " + line + "\n";
  return text;
}

}  // namespace mrb
