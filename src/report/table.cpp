#include "report/table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "bench/comparison.hpp"
#include "config/roles.hpp"
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
      for (const auto& [name, phase] : step.phases) {
        PhaseRow& row = rows[name];
        row.slowest_ms += ns_to_ms(phase.ns_max);
        row.fastest_ms += ns_to_ms(phase.ns_min);
        row.mean_ms += ns_to_ms(phase.ns_sum) / ranks;
      }
    }
  }
  const double steps = std::max(1, means.steps);
  for (double* value : {&means.wall_ms, &means.logical_bytes, &means.wire_bytes}) *value /= steps;
  for (auto& [name, row] : rows) {
    row.name = name;
    for (double* value : {&row.slowest_ms, &row.fastest_ms, &row.mean_ms}) *value /= steps;
    means.phases.push_back(row);
  }
  std::sort(means.phases.begin(), means.phases.end(),
            [](const PhaseRow& a, const PhaseRow& b) { return a.mean_ms > b.mean_ms; });
  return means;
}

std::string carried_by(const Result& result) {
  if (result.launches.empty()) return "-";
  const LaunchSample& launch = result.launches.front();
  return launch.transport + " (" + launch.provider + ")";
}

// What the experiments have there, each once: "f32, bf16".
std::string distinct(const RunRecord& record, const std::function<std::string(const Config&)>& part) {
  std::vector<std::string> texts;
  for (const Result& result : record.results) {
    const std::string text = part(result.experiment.config);
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string schedule_with_ranks(const Config& config) {
  const Roles roles = roles_of(config);
  if (!roles.apart) return "colocated";
  return fmt::format("{} ({} generate, {} train)", config.schedule.name, roles.rollout_ranks, roles.train_ranks);
}

std::string header(const RunInfo& info, const RunRecord& record) {
  const Config& config = record.results.front().experiment.config;
  std::string text = fmt::format("# moe-rl-bench {} ({}) · {} on {} ({}) · seed {}\n", info.build.version,
                                 info.build.commit, counted(info.ranks.size(), "rank"),
                                 counted(info.nodes.size(), "node"), info.nodes.front().host, config.seed);
  text += fmt::format(
      "# model {} · {} answers a step, {} · {} · {}\n", distinct(record, [](const Config& c) { return c.model.name; }),
      distinct(record,
               [](const Config& c) { return fmt::format("{} prompts x {}", c.grpo.prompts, c.grpo.group_size); }),
      distinct(record, schedule_with_ranks),
      distinct(record, [](const Config& c) { return c.compute.name + " " + c.compute.dtype; }), info.compute_library);
  text += fmt::format("# {} of {} launches, each {} warm-up and {} counted steps, in {} of A B B A · status: {}\n",
                      record.launches_done, record.launches_planned, config.measure.warmup_steps, config.measure.steps,
                      counted(static_cast<std::size_t>(record.blocks_done), "block"), record.status);
  for (const std::string& note : record.notes) text += "# note: " + note + "\n";
  return text;
}

// One line in place of numbers, when there are none.
std::string why_no_number(const Result& result) {
  switch (result.status) {
    case ResultStatus::pending:
      return "not measured";
    case ResultStatus::failed:
      return "failed: " + result.reason.substr(0, result.reason.find('\n'));
    case ResultStatus::skipped:
      return "skipped: " + result.reason;
    case ResultStatus::done:
      break;
  }
  if (result.same_work) return "";
  return fmt::format("no number: it does other work than the baseline, by {:.1e} where {:.0e} is allowed",
                     result.loss_difference_max, work_tolerance(result.experiment.config));
}

std::string variant_row(const RunRecord& record, const Result& result, std::size_t width) {
  const std::string none = why_no_number(result);
  if (!none.empty()) return fmt::format("# {:<{}}  {}\n", result.experiment.label, width, none);
  const Result* baseline = find_baseline(record.results, result);
  const bool is_compared = baseline != nullptr && baseline != &result;
  return fmt::format("  {:<{}}  {:>10.0f}  {:>8.2f}  {:>6.1f}  {:<26}  {:<19}  {:<4}  {} {}\n", result.experiment.label,
                     width, result.tokens_per_s.median, mean_step(result).wall_ms, result.tokens_per_s.variation * 100,
                     is_compared ? ratio_text(result.against_baseline) : "-",
                     is_compared           ? verdict_text(result.against_baseline.verdict)
                     : baseline == nullptr ? "baseline has none"
                                           : "baseline",
                     !is_compared      ? "-"
                     : result.same_lag ? "same"
                                       : "lag",
                     result.source, carried_by(result));
}

// How long the ranks of each role did nothing but wait, how old their answers' weights were, and what went between them.
std::string role_line(const Result& result) {
  std::map<std::string, RoleSample> roles;
  double age = 0, full = 0, answers = 0, weights = 0;
  int age_max = 0, steps = 0;
  for (const LaunchSample& launch : result.launches) {
    for (const StepSample& step : launch.steps) {
      if (step.warmup) continue;
      for (const auto& [name, role] : step.roles) {
        RoleSample& sum = roles[name];
        sum.wall_ns += role.wall_ns;
        sum.idle_ns += role.idle_ns;
      }
      age += step.age_mean;
      age_max = std::max(age_max, step.age_max);
      full += step.full_ratio;
      answers += static_cast<double>(step.answer_bytes);
      weights += static_cast<double>(step.weight_bytes);
      ++steps;
    }
  }
  std::string text = fmt::format("# {}:", result.experiment.label);
  for (const auto& [name, role] : roles) {
    const double idle = role.wall_ns > 0 ? static_cast<double>(role.idle_ns) / static_cast<double>(role.wall_ns) : 0;
    text += fmt::format("{} {} idle {:.1f}%", text.ends_with(':') ? "" : ",", name, 100 * idle);
  }
  const double count = std::max(1, steps);
  text += fmt::format("; answers {:.1f}% at their longest, of weights {:.2f} updates old, {} at most",
                      100 * full / count, age / count, age_max);
  if (roles.size() > 1) {
    const auto bytes = [&](double sum) { return bytes_text(static_cast<std::uint64_t>(sum / count)); };
    text += fmt::format("; a step moves {} of answers, {} of weights", bytes(answers), bytes(weights));
  }
  return text + "\n";
}

// Where schedules differ, or wait.
std::string role_lines(const RunRecord& record) {
  std::string text = "#\n";
  for (const Result& result : record.results) {
    if (result.status == ResultStatus::done) text += role_line(result);
  }
  return text;
}

std::string variant_rows(const RunInfo& info, const RunRecord& record) {
  std::size_t width = 7;
  for (const Result& result : record.results) width = std::max(width, result.experiment.label.size());
  std::string text =
      fmt::format("#\n# {:<{}}  {:>10}  {:>8}  {:>6}  {:<26}  {:<19}  {:<4}  {}\n", "variant", width, "tokens/s",
                  "step ms", "cv %", "to the baseline, 95%", "verdict", "work", "source, and what carried the bytes");
  for (const Result& result : record.results) text += variant_row(record, result, width);
  return text +
         fmt::format(
             "# tokens/s: prompt and response tokens of {} over the wall time of the counted steps, "
             "median launch; to the baseline: mean ratio over blocks\n",
             counted(info.ranks.size(), "rank")) +
         role_lines(record);
}

// A host or rank that others wait for so many times as long as if all were alike is named as such.
constexpr double kStandsOut = 1.5;

// What the interfaces counted beside what they were handed, over whole launches.
std::string nic_text(const Result& result) {
  TrafficSample sum;
  for (const LaunchSample& launch : result.launches) {
    sum.nic_source = launch.traffic.nic_source;
    sum.nic_bytes += launch.traffic.nic_bytes;
    sum.handed_bytes += launch.traffic.handed_bytes;
  }
  if (sum.nic_source.empty()) return "no interface counts what it carries";
  if (sum.handed_bytes == 0) return "nothing had to leave its host";
  return fmt::format("{:.2f} of the {} that whole launches handed over ({})",
                     static_cast<double>(sum.nic_bytes) / static_cast<double>(sum.handed_bytes),
                     bytes_text(sum.handed_bytes), sum.nic_source);
}

// Whom the others waited for: the host, or on one host the rank.
std::string late_line(const RunInfo& info, const Result& result) {
  std::map<std::string, double> late_s;
  double all_s = 0;
  for (const LaunchSample& launch : result.launches) {
    for (std::size_t rank = 0; rank < launch.traffic.late_ns.size(); ++rank) {
      const double s = ns_to_s(launch.traffic.late_ns[rank]);
      late_s[info.nodes.size() > 1 ? info.ranks.at(rank).host : fmt::format("rank {}", rank)] += s;
      all_s += s;
    }
  }
  if (late_s.size() < 3 || all_s <= 0) return "";  // of two, each is the one that the other waits for
  const auto latest =
      std::max_element(late_s.begin(), late_s.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const double share = latest->second / all_s, fair = 1.0 / static_cast<double>(late_s.size());
  return fmt::format(
      "# last to arrive: {} for {:.0f}% of the {:.3g} s that ranks waited for the slower half of others{}\n",
      latest->first, 100 * share, all_s,
      share > kStandsOut * fair ? fmt::format(" (of {} alike: {:.0f}%)", late_s.size(), 100 * fair) : "");
}

std::string phase_rows(const RunInfo& info, const Result& result) {
  const StepMeans means = mean_step(result);
  std::string text = fmt::format("#\n# phases of {}, a mean step\n# {:<30}  {:>10}  {:>10}  {:>8}\n",
                                 result.experiment.label, "phase", "slowest ms", "fastest ms", "share %");
  double total = 0;
  for (const PhaseRow& row : means.phases) total += row.mean_ms;
  for (const PhaseRow& row : means.phases) {
    text += fmt::format("  {:<30}  {:>10.3f}  {:>10.3f}  {:>8.1f}\n", row.name, row.slowest_ms, row.fastest_ms,
                        total > 0 ? row.mean_ms / total * 100 : 0);
  }
  text += fmt::format("  {:<30}  {:>10.3f}\n", "step", means.wall_ms);
  const auto bytes = [](double mean) { return bytes_text(static_cast<std::uint64_t>(mean)); };
  text += fmt::format(
      "# dispatch and combine of a step, all ranks: {} logical (from the routing), {} wire (as handed to "
      "the transport); NIC: {}\n",
      bytes(means.logical_bytes), bytes(means.wire_bytes), nic_text(result));
  text += late_line(info, result);
  return text +
         (means.marked == 0
              ? fmt::format("# phases and idle add up to the wall time within {:.0f}% on every rank, in all {}\n",
                            kUnaccountedRatioMax * 100, counted(static_cast<std::size_t>(means.steps), "step"))
              : fmt::format("# {} of {} are marked: phases and idle miss the wall time by more than {:.0f}%\n",
                            means.marked, counted(static_cast<std::size_t>(means.steps), "step"),
                            kUnaccountedRatioMax * 100));
}

std::string work_line(const RunRecord& record) {
  int same = 0, variants = 0, same_tokens = 0, other_lag = 0;
  double difference = 0;
  for (const Result& result : record.results) {
    if (find_baseline(record.results, result) == nullptr || result.status != ResultStatus::done) continue;
    if (!result.same_lag) {
      ++other_lag;
      continue;
    }
    ++variants;
    same += result.same_work ? 1 : 0;
    same_tokens += result.same_tokens ? 1 : 0;
    difference = std::max(difference, result.loss_difference_max);
  }
  if (variants == 0) return "#\n# work equivalence: no baseline to compare with\n";
  const std::string lag =
      other_lag == 0
          ? ""
          : fmt::format(
                "# lag: {} {} on answers of older weights: the prompts are the baseline's, the losses "
                "are not, and are not compared\n",
                counted(static_cast<std::size_t>(other_lag), "variant"), other_lag == 1 ? "trains" : "train");
  return lag +
         fmt::format(
             "#\n# work equivalence: {} of {} variants have the baseline's losses step by step, within {} relative "
             "(largest "
             "difference {:.1e}); {} of {} its very tokens\n",
             same, variants,
             distinct(record,
                      [](const Config& c) { return fmt::format("{:.0e} in {}", work_tolerance(c), c.compute.dtype); }),
             difference, same_tokens, variants);
}

std::string choice_lines(const RunInfo& info, const RunRecord& record) {
  std::string text;
  for (const Result& baseline : record.results) {
    if (find_baseline(record.results, baseline) != &baseline) continue;
    const Result& winner = choose(record.results, baseline);
    text += phase_rows(info, baseline);
    if (&winner == &baseline) {
      text += fmt::format("#\n# use: {}, the baseline: no variant was shown to be faster\n", winner.experiment.label);
    } else {
      text += phase_rows(info, winner);
      text += fmt::format("#\n# use: {}: {} tokens/s against {}\n", winner.experiment.label,
                          ratio_text(winner.against_baseline), baseline.experiment.label);
    }
  }
  return text;
}

}  // namespace

std::string run_table(const RunInfo& info, const RunRecord& record, const std::string& folder) {
  std::string text = header(info, record) + variant_rows(info, record) + choice_lines(info, record) + work_line(record);
  text += fmt::format("# results: {}/result.json", folder);
  for (const TunedConfig& tuned : tuned_configs(info, record)) text += fmt::format(", {}", tuned.file);
  return text + "\n";
}

}  // namespace mrb
