#include "report/plan_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mrb {

namespace {

std::string usd(double value) {
  return value > 0 ? fmt::format("{:.2f}", value) : "no price";
}

std::string split_text(const TrainChoice& train) {
  const Parallelism& split = train.split;
  return fmt::format("TP{} PP{} EP{} DP{} mb{:g}{}", split.tensor, split.pipeline, split.expert, split.data(),
                     train.micro_sequences, train.recompute == Recompute::full ? " recompute" : "");
}

std::string schedule_text(const PlanPoint& point) {
  std::string text(schedule_name(point.schedule));
  if (point.schedule == Schedule::async) text += fmt::format(" {}", point.staleness);
  return text;
}

std::string nodes_text(const PlanPoint& point) {
  if (point.schedule == Schedule::colocated) return fmt::format("{} shared", point.nodes);
  return fmt::format("{}:{}", point.rollout_nodes, point.train_nodes);
}

std::string candidate_line(const Candidate& one) {
  return fmt::format("  {:<17} {:>5} {:<16} {:>10} {:>9.1f} {:>12.0f} {:>10} {:>8}  {:<34} {}\n",
                     one.point.instance->name, one.point.nodes, schedule_text(one.point), nodes_text(one.point),
                     one.cost.step_s, one.cost.tokens_per_s(), usd(one.cost.usd_per_million_tokens()),
                     one.point.engine_gpus, split_text(one.point.train), one.point.train.backend);
}

std::string candidate_lines(const std::vector<Candidate>& candidates) {
  std::string text =
      fmt::format("# {:<17} {:>5} {:<16} {:>10} {:>9} {:>12} {:>10} {:>8}  {:<34} {}\n", "instance", "nodes",
                  "schedule", "roll:train", "step s", "trained t/s", "USD/M tok", "engine", "training", "dispatcher");
  for (const Candidate& one : candidates) text += candidate_line(one);
  return text;
}

std::string phase_line(const char* name, double seconds, double step_s, const std::string& how) {
  return fmt::format("  {:<22} {:>9.2f} {:>8.1f}  {}\n", name, seconds, 100 * seconds / step_s, how);
}

std::string phases(const PlanReport& report) {
  const StepCost& cost = report.best.cost;
  const PhaseTimes& t = cost.phases;
  const Calibration& calibration = report.calibration;
  const std::string train_error =
      fmt::format("modelled, +-{:.0f}%{}", 100 * calibration.train_error_ratio,
                  calibration.has_seen(report.best.point.train.backend, *report.best.point.instance)
                      ? ""
                      : ", EXTRAPOLATED: no published training step with this dispatcher on this instance");
  std::string text = "# phase                    seconds   % step  how sure\n";
  const bool is_async = report.best.point.schedule == Schedule::async && report.best.point.staleness > 0;
  text += phase_line("rollout", is_async ? t.rollout_sustained_s : t.rollout_s, cost.step_s,
                     "modelled, error unknown: no published rollout names its lengths");
  text += phase_line("log_probs", cost.forward_s, cost.step_s, train_error);
  text += phase_line("train", t.train_s - cost.forward_s, cost.step_s, train_error);
  text += phase_line("weight_sync", t.sync_s, cost.step_s,
                     fmt::format("modelled, +-{:.0f}%", 100 * calibration.sync_error_ratio));
  if (t.switch_s > 0) text += phase_line("mode_switch", t.switch_s, cost.step_s, "modelled, error unknown");
  const bool is_sum =
      report.best.point.schedule == Schedule::colocated || report.best.point.schedule == Schedule::disaggregated;
  std::string how = is_sum ? "the sum" : "rollout and training overlap";
  if (report.step_error_ratio > 0) {
    how += fmt::format("; modelled, +-{:.0f}% on published whole steps", 100 * report.step_error_ratio);
  }
  return text + phase_line("step", cost.step_s, cost.step_s, how);
}

std::string bottleneck(const PlanReport& report) {
  const PhaseTimes& t = report.best.cost.phases;
  const bool is_async = report.best.point.schedule == Schedule::async && report.best.point.staleness > 0;
  const double rollout = is_async ? t.rollout_sustained_s : t.rollout_s;
  return rollout > t.train_s ? "rollout" : "training";
}

std::string capacity(const PlanReport& report) {
  const PlanPoint& point = report.best.point;
  const StepCost& cost = report.best.cost;
  const RolloutCost& rollout = cost.rollout;
  const SimulatedSteps& simulated = report.simulated;
  const double answers = report.workload.answers(), gpus = report.gpus(), step_s = cost.step_s;
  const double answer_tokens = cost.trained_tokens - answers * report.workload.prompt_tokens;
  const double hbm = point.instance->hbm_gbyte;
  const LengthDistribution& lengths = report.workload.lengths;
  const bool is_async = point.schedule == Schedule::async && point.staleness > 0;
  const double rollout_busy_s = is_async ? cost.phases.rollout_sustained_s : cost.phases.rollout_s;
  const double own = report.found.priced > 0 ? rollout.weight_gbyte + rollout.kv_gbyte : 0;
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("  {:<22} {}\n", name, value);
  };
  line("rates",
       fmt::format("{:.2f} answers/s, {:.0f} answer tokens/s, {:.0f} trained tokens/s ({:.1f} a GPU of all {:.0f})",
                   answers / step_s, answer_tokens / step_s, cost.tokens_per_s(), cost.tokens_per_s() / gpus, gpus));
  line("simulated steps", fmt::format("p50 {:.1f} s, p95 {:.1f} s over {} steps of drawn lengths ({} events)",
                                      simulated.step_s_p50, simulated.step_s_p95, simulated.steps, simulated.events));
  line("staleness", fmt::format("mean {:.2f}, at most {} steps; bounded by admission, nothing is discarded",
                                simulated.staleness_mean, simulated.staleness_max));
  line("idle",
       fmt::format("rollout side {:.0f}%, training side {:.0f}% of the step",
                   100 * (1 - std::min(1.0, rollout_busy_s / step_s)), 100 * (1 - cost.phases.train_s / step_s)));
  line("bottleneck", bottleneck(report));
  line("lengths",
       fmt::format("lognormal, mean {:.0f}, cv {:g}, cut at {:.0f} tokens ({:.1f}% are cut); tail {:.0f}% of rollout",
                   lengths.mean_tokens, lengths.cv, lengths.max_tokens, 100 * lengths.clip_ratio(),
                   100 * rollout.tail_ratio));
  line("rollout memory",
       fmt::format("weights {:.1f} GB, {:.1f} GB for keys and values of {:.0f} GB a GPU; {:.0f} of {:.0f} possible "
                   "answers an engine at once",
                   rollout.weight_gbyte, own - rollout.weight_gbyte, hbm, rollout.slots, rollout.slots_by_memory));
  line("training memory", fmt::format("{:.1f} of {:.0f} GB a GPU: weights {:.1f}, gradients {:.1f}, optimiser {:.1f}, "
                                      "activations {:.1f}, logits {:.1f}",
                                      cost.memory.total_bytes() / 1e9, hbm, cost.memory.weight_bytes / 1e9,
                                      cost.memory.gradient_bytes / 1e9, cost.memory.optimizer_bytes / 1e9,
                                      cost.memory.activation_bytes / 1e9, cost.memory.logit_bytes / 1e9));
  line("dispatch and combine", fmt::format("{:.2f} GB a GPU and step to other nodes, {:.0f}% of training",
                                           report.exchange_bytes_per_gpu() / 1e9, 100 * report.exchange_share_ratio()));
  line("weight sync",
       fmt::format(
           "{:.1f} GB, {:.1f} GB/s", 2.0 * static_cast<double>(count_parameters(report.workload.model).total) / 1e9,
           2.0 * static_cast<double>(count_parameters(report.workload.model).total) / 1e9 / cost.phases.sync_s));
  line("MFU", fmt::format("{:.1f}% = {} forward operations of each trained token / (step x GPUs x peak)",
                          100 * report.mfu_ratio(), 3 + report.workload.forward_passes));
  line("price", cost.usd_per_hour > 0
                    ? fmt::format("{:.2f} USD/h ({}), {} USD per million trained tokens", cost.usd_per_hour,
                                  point.instance->price_source, usd(cost.usd_per_million_tokens()))
                    : point.instance->name + " has no published price");
  line("whole training",
       fmt::format(
           "{} steps: {:.1f} h, {:.0f} GPU-hours ({:.0f} per 1,000 steps){}", report.steps,
           report.steps * step_s / 3600, report.steps * step_s / 3600 * gpus, 1000 * step_s / 3600 * gpus,
           cost.usd_per_hour > 0 ? fmt::format(", {:.0f} USD", report.steps * step_s / 3600 * cost.usd_per_hour) : ""));
  return text;
}

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:+.1f}%", 100 * (*ratio - 1)) : "does not fit";
}

std::string firmness(const PlanReport& report) {
  std::string text = "# the step's time, were this 20% less or more   -20%         +20%\n";
  for (const Sensitivity& line : report.sensitivities) {
    text += fmt::format("  {:<38} {:>12} {:>12}{}\n", line.knob, ratio_text(line.less_ratio),
                        ratio_text(line.more_ratio), line.is_dead() ? "  changes nothing here" : "");
  }
  text += "# one node more\n";
  for (const Marginal& line : report.marginals) {
    text += fmt::format("  {:<38} {:>12}\n", line.side, ratio_text(line.step_ratio));
  }
  return text;
}

std::string winner_map(const PlanReport& report) {
  std::string text = fmt::format(
      "# where the dispatcher of training flips; a lead below the model's error of {:.0f}% shows no difference\n"
      "# {:<17} {:>5} {:>11}  {:<18} {:>7}  {}\n",
      100 * report.calibration.train_error_ratio, "instance", "nodes", "micro-batch", "fastest", "lead %", "next");
  for (const WinnerCell& cell : report.winners) {
    text += fmt::format("  {:<17} {:>5} {:>11g}  {:<18} {:>7.1f}  {}{}\n", cell.instance, cell.nodes,
                        cell.micro_sequences, cell.backend, 100 * cell.lead_ratio, cell.next,
                        cell.lead_ratio < report.calibration.train_error_ratio ? "  (no difference shown)" : "");
  }
  return text;
}

}  // namespace

std::string plan_table(const PlanReport& report) {
  const Workload& w = report.workload;
  std::vector<Candidate> all = report.found.candidates;
  std::ranges::stable_sort(all, {}, [](const Candidate& c) { return c.cost.step_s; });
  std::string text = fmt::format(
      "# plan of {}, {} prompts x {} answers a step; everything is MODELLED, nothing was measured here\n"
      "# {} points priced\n#\n# the best split of each, fastest first\n",
      w.model.name, w.prompts, w.group_size, report.found.priced);
  text += candidate_lines(all) + "#\n# neither slower nor dearer than any other\n";
  text += report.pareto.empty() ? "  no instance here has a published price\n" : candidate_lines(report.pareto);
  text += fmt::format("#\n# the best by {}\n", report.goal) + candidate_lines({report.best});
  text += phases(report) + "#\n" + capacity(report) + "#\n" + firmness(report) + "#\n" + winner_map(report);
  if (!report.found.refused.empty()) text += "#\n# what does not fit, and how often\n";
  for (const auto& [reason, count] : report.found.refused) text += fmt::format("  {:>8}  {}\n", count, reason);
  return text;
}

}  // namespace mrb
