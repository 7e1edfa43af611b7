#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "report/markup.hpp"
#include "report/run_comparison.hpp"

namespace mrb {

namespace {

// A change as people say it: of tokens a second -5% is slower, of a time +5%.
struct Change {
  double estimate, low, high;
};

Change change_of(const MetricComparison& metric) {
  const GateResult& result = metric.result;
  const bool is_time = metric.metric == "step_ms_p99";
  return is_time ? Change{result.slowdown - 1, result.slowdown_low - 1, result.slowdown_high - 1}
                 : Change{1 / result.slowdown - 1, 1 / result.slowdown_high - 1, 1 / result.slowdown_low - 1};
}

std::string signed_percent(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:+.1f}%", ratio * 100) : "+inf";
}

std::string interval_text(const MetricComparison& metric) {
  const Change change = change_of(metric);
  return fmt::format("[{}, {}]", signed_percent(change.low), signed_percent(change.high));
}

std::string name_of(const MetricComparison& metric) {
  return metric.metric == "step_ms_p99" ? "step p99, ms" : "tokens/s";
}

std::string value_text(const MetricComparison& metric, double value) {
  return metric.metric == "step_ms_p99" ? fmt::format("{:.2f}", value) : fmt::format("{:.0f}", value);
}

int count_of(const RunComparison& comparison, GateVerdict verdict) {
  int count = 0;
  for (const auto& metric : comparison.metrics) count += metric.result.verdict == verdict ? 1 : 0;
  return count;
}

std::string design_text(const RunComparison& comparison) {
  return comparison.paired ? "pairs" : "launches a side";
}

// Names, numbers and verdict of one metric, in one line.
std::string sentence(const MetricComparison& metric) {
  std::string text =
      fmt::format("{}, {}: {} to {}, {} {}, margin {:g}%", metric.cell, name_of(metric),
                  value_text(metric, metric.before), value_text(metric, metric.after),
                  signed_percent(change_of(metric).estimate), interval_text(metric), metric.margin_ratio * 100);
  if (!metric.result.reason.empty()) text += "; " + metric.result.reason;
  return text;
}

}  // namespace

std::string comparison_table(const RunComparison& comparison) {
  std::size_t width = 7;
  for (const auto& metric : comparison.metrics) width = std::max(width, metric.cell.size());
  std::string text = fmt::format("# {} against {}, median launch, interval of the change\n", comparison.after_id,
                                 comparison.before_id);
  for (const std::string& warning : comparison.warnings) text += "# warning: " + warning + "\n";
  text += fmt::format("# {:<{}}  {:<12}  {:>10}  {:>10}  {:>7}  {:<18}  {:>6}  {:>4}  {}\n", "variant", width, "metric",
                      "before", "after", "change", "interval", "margin", "n", "verdict");
  for (const auto& metric : comparison.metrics) {
    text += fmt::format("  {:<{}}  {:<12}  {:>10}  {:>10}  {:>7}  {:<18}  {:>5g}%  {:>4}  {}{}\n", metric.cell, width,
                        name_of(metric), value_text(metric, metric.before), value_text(metric, metric.after),
                        signed_percent(change_of(metric).estimate), interval_text(metric), metric.margin_ratio * 100,
                        metric.result.pairs, gate_verdict_text(metric.result.verdict),
                        metric.result.reason.empty() ? "" : ": " + metric.result.reason);
  }
  if (comparison.wrong_work)
    text += "# wrong: losses differ, so a variant computes something else; its numbers mean nothing\n";
  return text + fmt::format("# n: {}\nresult: {} ({} FAIL, {} INCONCLUSIVE of {} gated)\n", design_text(comparison),
                            gate_verdict_text(comparison.verdict), count_of(comparison, GateVerdict::fail),
                            count_of(comparison, GateVerdict::inconclusive), comparison.metrics.size());
}

std::string comparison_markdown(const RunComparison& comparison) {
  std::string text = fmt::format("### moe-rl-bench: {}\n\n`{}` against `{}`\n\n", gate_verdict_text(comparison.verdict),
                                 comparison.after_id, comparison.before_id);
  text +=
      "| variant | metric | before | after | change | interval | margin | n | verdict |\n"
      "|---|---|--:|--:|--:|---|--:|--:|---|\n";
  for (const auto& metric : comparison.metrics) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {:g}% | {} | {}{} |\n", markdown_cell(metric.cell),
                        name_of(metric), value_text(metric, metric.before), value_text(metric, metric.after),
                        signed_percent(change_of(metric).estimate), interval_text(metric), metric.margin_ratio * 100,
                        metric.result.pairs, gate_verdict_text(metric.result.verdict),
                        metric.result.reason.empty() ? "" : ": " + markdown_cell(metric.result.reason));
  }
  text += "\n";
  for (const std::string& warning : comparison.warnings) text += "- " + markdown_cell(warning) + "\n";
  return text;
}

std::string comparison_junit(const RunComparison& comparison) {
  std::string cases;
  for (const auto& metric : comparison.metrics) {
    const std::string words = xml_text(sentence(metric));
    cases += fmt::format("  <testcase classname=\"{}\" name=\"{}\">", xml_text(metric.cell), metric.metric);
    if (metric.result.verdict == GateVerdict::fail) cases += fmt::format("<failure message=\"{}\"/>", words);
    if (metric.result.verdict == GateVerdict::inconclusive) cases += fmt::format("<skipped message=\"{}\"/>", words);
    cases += fmt::format("<system-out>{}</system-out></testcase>\n", words);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites>\n<testsuite name=\"moe-rl-bench {}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n"
      "{}</testsuite>\n</testsuites>\n",
      xml_text(comparison.after_id), comparison.metrics.size(), count_of(comparison, GateVerdict::fail),
      count_of(comparison, GateVerdict::inconclusive), cases);
}

std::string comparison_annotations(const RunComparison& comparison) {
  std::string text;
  for (const auto& metric : comparison.metrics) {
    if (metric.result.verdict == GateVerdict::pass) continue;
    const char* command = metric.result.verdict == GateVerdict::fail           ? "error"
                          : metric.result.verdict == GateVerdict::inconclusive ? "warning"
                                                                               : "notice";
    text += fmt::format("::{} title=moe-rl-bench {}::{}\n", command, gate_verdict_text(metric.result.verdict),
                        workflow_text(sentence(metric)));
  }
  return text;
}

std::string comparison_json(const RunComparison& comparison) {
  using Json = nlohmann::ordered_json;
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); };
  Json metrics = Json::array();
  for (const auto& metric : comparison.metrics) {
    const GateResult& result = metric.result;
    metrics.push_back({{"cell", metric.cell},
                       {"metric", metric.metric},
                       {"before_median", number(metric.before)},
                       {"after_median", number(metric.after)},
                       {"slowdown_ratio", number(result.slowdown)},
                       {"slowdown_ratio_low", number(result.slowdown_low)},
                       {"slowdown_ratio_high", number(result.slowdown_high)},
                       {"margin_ratio", metric.margin_ratio},
                       {"n", result.pairs},
                       {"pairs_needed", result.pairs_needed},
                       {"sd_pair_ratio", number(result.sd_pair_ratio)},
                       {"verdict", gate_verdict_text(result.verdict)},
                       {"reason", result.reason.empty() ? Json(nullptr) : Json(result.reason)}});
  }
  const Json json = {{"before", comparison.before_id},
                     {"after", comparison.after_id},
                     {"design", comparison.paired ? "paired" : "unpaired"},
                     {"family_correction", "holm"},
                     {"metrics", metrics},
                     {"warnings", comparison.warnings},
                     {"verdict", gate_verdict_text(comparison.verdict)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mrb
