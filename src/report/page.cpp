#include "report/page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.hpp"
#include "report/markup.hpp"
#include "report/page_charts.hpp"
#include "report/run_summary.hpp"

namespace mrb {

namespace {

struct PageColumn {
  std::string title;
  bool is_number = false;
};

// A cell's HTML, already escaped, and its class.
struct Cell {
  std::string html;
  std::string style = "";
};

// A table that becomes a card per row on narrow screens, where each value carries its column's title.
class Table {
 public:
  explicit Table(std::vector<PageColumn> columns) : columns_(std::move(columns)) {}

  void add(const std::vector<Cell>& cells) {
    rows_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string style = (columns_[i].is_number ? "n " : "") + cells[i].style;
      rows_ +=
          fmt::format("<td class=\"{}\" data-label=\"{}\">{}</td>", style, xml_text(columns_[i].title), cells[i].html);
    }
    rows_ += "</tr>\n";
  }

  std::string html() const {
    std::string head;
    for (const PageColumn& column : columns_)
      head += fmt::format("<th{}>{}</th>", column.is_number ? " class=\"n\"" : "", xml_text(column.title));
    return fmt::format("<table><thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table>\n", head, rows_);
  }

 private:
  std::vector<PageColumn> columns_;
  std::string rows_;
};

std::string section(const std::string& title, const std::string& html) {
  return fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", xml_text(title), html);
}

std::string percent(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:+.1f}%", ratio * 100) : "unbounded";
}

std::string style_of(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::pass:
    case GateVerdict::faster:
      return "good";
    case GateVerdict::fail:
      return "bad";
    case GateVerdict::inconclusive:
      break;
  }
  return "open";
}

std::string gate_section(const RunComparison& comparison) {
  Table table({{"variant"},
               {"metric"},
               {"before", true},
               {"after", true},
               {"slower by"},
               {"margin", true},
               {"n", true},
               {"verdict"}});
  for (const MetricComparison& metric : comparison.metrics) {
    const bool is_time = metric.metric == "step_ms_p99";
    const auto value = [&](double number) {
      return is_time ? fmt::format("{:.2f}", number) : fmt::format("{:.0f}", number);
    };
    const GateResult& result = metric.result;
    std::string verdict = std::string(gate_verdict_text(result.verdict));
    if (!result.reason.empty()) verdict += ": " + result.reason;
    table.add({{xml_text(metric.cell)},
               {is_time ? "step p99, ms" : "tokens/s"},
               {value(metric.before)},
               {value(metric.after)},
               {fmt::format("{} [{}, {}]", percent(result.slowdown - 1), percent(result.slowdown_low - 1),
                            percent(result.slowdown_high - 1))},
               {fmt::format("{:g}%", metric.margin_ratio * 100)},
               {std::to_string(result.pairs)},
               {xml_text(verdict), style_of(result.verdict)}});
  }
  std::string notes;
  for (const std::string& warning : comparison.warnings)
    notes += fmt::format("<p class=\"note\">{}</p>\n", xml_text(warning));
  if (comparison.wrong_work)
    notes +=
        "<p class=\"note bad\">Losses differ: a variant computes something else, and its numbers mean nothing.</p>\n";
  return section(fmt::format("Gate: {}", gate_verdict_text(comparison.verdict)),
                 fmt::format("<p class=\"soft\">{} against {}, {}</p>\n{}{}", xml_text(comparison.after_id),
                             xml_text(comparison.before_id),
                             comparison.paired ? "paired launches" : "two sessions, unpaired", notes, table.html()));
}

std::string style_of(const VariantSummary& variant) {
  if (!variant.against_baseline) return variant.cell->status == "done" && variant.cell->same_work ? "" : "bad";
  switch (variant.against_baseline->verdict) {
    case Verdict::faster:
      return "good";
    case Verdict::slower:
      return "bad";
    default:
      return "open";
  }
}

std::string variants_section(const std::vector<VariantSummary>& variants) {
  Table table({{"variant"},
               {"tokens/s", true},
               {"95% interval"},
               {"cv %", true},
               {"step ms", true},
               {"p99 ms", true},
               {"to the baseline, 95%"},
               {"verdict"},
               {"source, carried by"}});
  for (const VariantSummary& variant : variants) {
    if (variant.steps == 0) {
      table.add({{xml_text(variant.cell->label)},
                 {"-"},
                 {"-"},
                 {"-"},
                 {"-"},
                 {"-"},
                 {"-"},
                 {xml_text(variant.verdict), style_of(variant)},
                 {"-"}});
      continue;
    }
    const auto& interval = variant.tokens_per_s_interval;
    const auto& ratio = variant.against_baseline;
    table.add({{xml_text(variant.cell->label)},
               {fmt::format("{:.0f}", variant.tokens_per_s_median)},
               {interval ? fmt::format("[{:.0f}, {:.0f}]", interval->low, interval->high)
                         : fmt::format("none of {}", counted(static_cast<std::size_t>(variant.launches), "launch"))},
               {fmt::format("{:.1f}", variant.variation_launches_ratio * 100)},
               {fmt::format("{:.2f}", variant.step_ms_median)},
               {fmt::format("{:.2f}", variant.step_ms_p99)},
               {ratio ? fmt::format("{} [{}, {}]", percent(ratio->ratio - 1), percent(ratio->low - 1),
                                    percent(ratio->high - 1))
                      : "-"},
               {xml_text(variant.verdict), style_of(variant)},
               {xml_text(variant.cell->source + ", " + carried_by(*variant.cell))}});
  }
  return section("Verdicts within this run",
                 table.html() +
                     "<p class=\"soft\">tokens/s: prompt and response tokens of all ranks over the wall time "
                     "of the counted steps, median launch, with an exact order-statistic interval. To the "
                     "baseline: mean ratio over blocks of launches in turn.</p>\n");
}

// The longest phases have colours, in the same order for all variants; the rest is one part.
std::map<std::string, int> phase_colours(const std::vector<VariantSummary>& variants) {
  std::map<std::string, double> totals;
  for (const VariantSummary& variant : variants) {
    for (const PhaseSummary& phase : variant.phases) totals[phase.name] += phase.ms_mean;
  }
  std::vector<std::pair<double, std::string>> order;
  for (const auto& [name, total] : totals) order.emplace_back(-total, name);
  std::sort(order.begin(), order.end());
  std::map<std::string, int> colours;
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), kPaletteSize - 1); ++i)
    colours[order[i].second] = static_cast<int>(i);
  return colours;
}

std::string phases_section(const std::vector<VariantSummary>& variants) {
  const auto colours = phase_colours(variants);
  std::vector<Bar> bars;
  Table table({{"variant"},
               {"phase"},
               {"mean ms", true},
               {"95% interval"},
               {"slowest rank ms", true},
               {"fastest rank ms", true},
               {"share %", true}});
  for (const VariantSummary& variant : variants) {
    if (variant.phases.empty()) continue;
    double total = 0, others = 0;
    for (const PhaseSummary& phase : variant.phases) total += phase.ms_mean;
    Bar bar{.label = variant.cell->label,
            .note = fmt::format("{:.1f} ms [{:.1f}, {:.1f}], mean step, 95% over launches", variant.step.ms_mean,
                                variant.step.ms_low, variant.step.ms_high)};
    for (const auto& [name, colour] : colours) {
      const auto phase = std::find_if(variant.phases.begin(), variant.phases.end(),
                                      [&, wanted = &name](const auto& one) { return one.name == *wanted; });
      if (phase != variant.phases.end()) bar.parts.push_back({name, phase->ms_mean, colour});
    }
    std::sort(bar.parts.begin(), bar.parts.end(), [](const auto& a, const auto& b) { return a.colour < b.colour; });
    for (const PhaseSummary& phase : variant.phases) {
      if (!colours.contains(phase.name)) others += phase.ms_mean;
      table.add({{xml_text(variant.cell->label)},
                 {xml_text(phase.name)},
                 {fmt::format("{:.3f}", phase.ms_mean)},
                 {fmt::format("[{:.3f}, {:.3f}]", phase.ms_low, phase.ms_high)},
                 {fmt::format("{:.3f}", phase.ms_slowest)},
                 {fmt::format("{:.3f}", phase.ms_fastest)},
                 {fmt::format("{:.1f}", total > 0 ? phase.ms_mean / total * 100 : 0)}});
    }
    if (others > 0) bar.parts.push_back({"other phases", others, kPaletteSize - 1});
    bars.push_back(std::move(bar));
  }
  if (bars.empty()) return "";
  return section("Where a step's time goes",
                 stacked_bars(bars, "time of a mean counted step, ms", "ms") +
                     "<details><summary>All phases with intervals over launches</summary>\n" + table.html() +
                     "</details>\n");
}

// Counted steps of all launches in the order they ran; steps of one launch stand side by side.
template <class Value>
std::vector<PointSeries> over_time(const StoredRun& run, Value value) {
  std::vector<PointSeries> series;
  for (const StoredCell& cell : run.cells) {
    if (cell.launches.empty()) continue;
    PointSeries one{.name = cell.label, .colour = static_cast<int>(series.size())};
    for (const StoredLaunch& launch : cell.launches) {
      const auto count = static_cast<double>(launch.steps.size());
      for (std::size_t i = 0; i < launch.steps.size(); ++i) {
        if (launch.steps[i].warmup) continue;
        one.points.emplace_back(launch.index + (static_cast<double>(i) + 0.5) / count, value(launch.steps[i]));
      }
    }
    series.push_back(std::move(one));
  }
  return series;
}

std::string samples_section(const StoredRun& run) {
  const auto series = over_time(run, [](const StoredStep& step) { return step.wall_ns / 1e6; });
  if (series.empty()) return "";
  return section("Every sample",
                 "<p class=\"soft\">A cloud that climbs is drift; two clouds of one colour are two modes.</p>\n" +
                     point_chart(series, {.x = "launch, in the order they ran", .y = "time of a counted step, ms"}));
}

std::string idle_section(const StoredRun& run) {
  const double ranks = std::max(1, run.ranks);
  const auto series = over_time(run, [&](const StoredStep& step) {
    const auto idle = step.phases.find("idle");
    return idle == step.phases.end() || step.wall_ns <= 0 ? 0 : idle->second.ns_sum / ranks / step.wall_ns * 100;
  });
  if (series.empty()) return "";
  return section(
      "Idle time",
      "<p class=\"soft\">What ranks wait for each other at the end of a step. All ranks generate and train in "
      "turn (colocated), so there is one role. Waiting inside an operation is in its phase: a fastest rank "
      "far below the slowest has been waited for.</p>\n" +
          point_chart(series, {.x = "launch, in the order they ran", .y = "idle, mean of ranks, % of the step"}));
}

std::string bytes_section(const std::vector<VariantSummary>& variants) {
  Table table({{"variant"},
               {"logical (modelled from the routing)", true},
               {"wire (counted as handed to the transport)", true},
               {"network interface"}});
  bool any = false;
  for (const VariantSummary& variant : variants) {
    if (variant.steps == 0) continue;
    any = true;
    table.add({{xml_text(variant.cell->label)},
               {bytes_text(static_cast<std::uint64_t>(variant.logical_bytes))},
               {bytes_text(static_cast<std::uint64_t>(variant.wire_bytes))},
               {"not counted by run"}});
  }
  return any ? section("Bytes of dispatch and combine in a mean step, all ranks", table.html()) : "";
}

std::string machine_section(const StoredRun& run) {
  Table table({{"what"}, {"value"}});
  const auto row = [&](const std::string& name, const std::string& value) {
    table.add({{xml_text(name)}, {xml_text(value)}});
  };
  for (const StoredNode& node : run.nodes) {
    row("node " + node.host,
        fmt::format("{}, {} of {} cores allowed, {}, {}", node.processor, node.cores_allowed, node.cores_online,
                    bytes_text(static_cast<std::uint64_t>(node.memory_bytes)), node.kernel));
  }
  row("ranks", std::to_string(run.ranks));
  row("compute", run.compute_device + ", " + run.compute_library);
  for (const auto& [name, loaded] : run.libraries)
    row("library " + name, loaded.empty() ? "not in this build" : loaded);
  Table variables({{"variable"}, {"value"}});
  for (const auto& [name, value] : run.environment) variables.add({{xml_text(name)}, {xml_text(value)}});
  return section("Machine", table.html() + "<details><summary>Variables of the libraries</summary>\n" +
                                variables.html() + "</details>\n");
}

std::string configuration_section(const StoredRun& run) {
  Table table({{"key"}, {"values"}, {"from"}});
  for (const StoredSetting& setting : run.settings)
    table.add({{"<code>" + xml_text(setting.key) + "</code>"},
               {xml_text(fmt::format("{}", fmt::join(setting.values, ", ")))},
               {xml_text(setting.origin)}});
  return section("Configuration", table.html());
}

// Arguments as a shell takes them.
std::string shell_words(const std::vector<std::string>& words) {
  std::string text = "moe-rl-bench";
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                            "0123456789_-./=:,+") == std::string::npos;
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += " " + (plain ? word : quoted + "'");
  }
  return text;
}

}  // namespace

std::string run_page(const StoredRun& run, const RunComparison* comparison) {
  const auto variants = summarize_run(run);
  std::string notes;
  if (run.status != "ok")
    notes += fmt::format("<p class=\"note\">This run is not whole: its status is {}.</p>\n", xml_text(run.status));
  for (const std::string& note : run.notes) notes += fmt::format("<p class=\"note\">{}</p>\n", xml_text(note));
  return fmt::format(
             "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<title>moe-rl-bench {}</title>\n<style>{}</style>\n</head>\n<body>\n"
             "<h1>GRPO steps on {}</h1>\n<p class=\"soft\">run {} · {} to {} · moe-rl-bench {} ({}) · {}</p>\n{}",
             xml_text(run.id), page_style(),
             xml_text(run.nodes.empty() ? "an unknown machine" : run.nodes.front().host), xml_text(run.id),
             xml_text(run.started), xml_text(run.ended.empty() ? "an unknown time" : run.ended), xml_text(run.version),
             xml_text(run.commit), counted(static_cast<std::size_t>(run.ranks), "rank"), notes) +
         (comparison != nullptr ? gate_section(*comparison) : "") + variants_section(variants) +
         phases_section(variants) + samples_section(run) + idle_section(run) + bytes_section(variants) +
         machine_section(run) + configuration_section(run) +
         section(
             "How to run it again",
             fmt::format("<pre>git checkout {}\n{}</pre>\n<p class=\"soft\">config.yaml beside result.json holds the "
                         "same configuration: <code>moe-rl-bench run config.yaml</code>. Build: {}.</p>\n",
                         xml_text(run.commit), xml_text(shell_words(run.arguments)), xml_text(run.build))) +
         "</body>\n</html>\n";
}

}  // namespace mrb
