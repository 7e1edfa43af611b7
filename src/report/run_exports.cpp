#include "report/run_exports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "report/markup.hpp"
#include "report/run_summary.hpp"
#include "stats/summary.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

std::string ratio_words(const VariantSummary& variant) {
  if (!variant.against_baseline) return "-";
  const RatioEstimate& ratio = *variant.against_baseline;
  const auto percent = [](double value) { return fmt::format("{:+.1f}%", (value - 1) * 100); };
  if (!std::isfinite(ratio.high)) return percent(ratio.ratio);
  return fmt::format("{} [{}, {}]", percent(ratio.ratio), percent(ratio.low), percent(ratio.high));
}

Json benchmark_entry(const std::string& name, double step_ms, double rate) {
  return {{"name", name},      {"run_name", name},        {"threads", 1}, {"real_time", step_ms}, {"cpu_time", step_ms},
          {"time_unit", "ms"}, {"items_per_second", rate}};
}

}  // namespace

std::string run_markdown(const StoredRun& run) {
  std::string text = fmt::format("### moe-rl-bench run `{}`\n\n", run.id);
  text += fmt::format("{} ranks, {}, commit {}, status {}\n\n", run.ranks, markdown_cell(run.compute_device),
                      markdown_cell(run.commit), markdown_cell(run.status));
  text +=
      "| variant | tokens/s | step ms | p99 ms | cv % | to the baseline, 95% | verdict | source | carried by |\n"
      "|---|--:|--:|--:|--:|---|---|---|---|\n";
  for (const VariantSummary& variant : summarize_run(run)) {
    const StoredCell& cell = *variant.cell;
    const std::string name = markdown_cell(cell.label), verdict = markdown_cell(variant.verdict);
    if (variant.steps == 0) {
      text += fmt::format("| {} | - | - | - | - | - | {} | - | - |\n", name, verdict);
      continue;
    }
    text += fmt::format("| {} | {:.0f} | {:.2f} | {:.2f} | {:.1f} | {} | {} | {} | {} |\n", name,
                        variant.tokens_per_s_median, variant.step_ms_median, variant.step_ms_p99,
                        variant.variation_launches_ratio * 100, ratio_words(variant), verdict,
                        markdown_cell(cell.source), markdown_cell(carried_by(cell)));
  }
  return text;
}

std::string run_csv(const StoredRun& run) {
  std::set<std::string> phases;
  for (const StoredCell& cell : run.cells) {
    for (const StoredLaunch& launch : cell.launches) {
      for (const StoredStep& step : launch.steps) {
        for (const auto& [name, phase] : step.phases) phases.insert(name);
      }
    }
  }
  std::string text =
      "cell,variant,source,transport,provider,block,launch,step,warmup,wall_ns,tokens,logical_bytes,wire_bytes";
  for (const std::string& name : phases) text += fmt::format(",{}", csv_field(name + "_ns"));
  text += "\n";
  for (const StoredCell& cell : run.cells) {
    for (const StoredLaunch& launch : cell.launches) {
      for (const StoredStep& step : launch.steps) {
        text += fmt::format("{},{},{},{},{},{},{},{},{},{:.0f},{:.0f},{:.0f},{:.0f}", csv_field(cell.id),
                            csv_field(cell.label), csv_field(cell.source), csv_field(launch.transport),
                            csv_field(launch.provider), launch.block, launch.index, step.step, step.warmup ? 1 : 0,
                            step.wall_ns, step.tokens, step.logical_bytes, step.wire_bytes);
        for (const std::string& name : phases) {
          const auto phase = step.phases.find(name);
          text +=
              phase == step.phases.end() ? "," : fmt::format(",{:.0f}", phase->second.ns_sum / std::max(1, run.ranks));
        }
        text += "\n";
      }
    }
  }
  return text;
}

std::string run_junit(const StoredRun& run) {
  std::string cases;
  int failures = 0, errors = 0, skipped = 0;
  for (const VariantSummary& variant : summarize_run(run)) {
    const StoredCell& cell = *variant.cell;
    const std::string words = xml_text(variant.verdict);
    cases += fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.6f}\">", xml_text(run.id),
                         xml_text(cell.label), variant.step_ms_median / 1e3);
    if (cell.status == "skipped" || cell.status == "pending") {
      ++skipped;
      cases += fmt::format("<skipped message=\"{}\"/>", words);
    } else if (cell.status != "done") {
      ++errors;
      cases += fmt::format("<error message=\"{}\"/>", words);
    } else if (!cell.same_work) {
      ++failures;
      cases += fmt::format("<failure message=\"{}\"/>", words);
    }
    cases +=
        fmt::format("<system-out>{:.0f} tokens/s, {}</system-out></testcase>\n", variant.tokens_per_s_median, words);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites>\n<testsuite name=\"moe-rl-bench {}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n"
      "{}</testsuite>\n</testsuites>\n",
      xml_text(run.id), run.cells.size(), failures, errors, skipped, cases);
}

std::string run_google_benchmark(const StoredRun& run) {
  Json benchmarks = Json::array();
  for (const StoredCell& cell : run.cells) {
    if (cell.launches.empty()) continue;
    const std::string name = "moe_rl_bench/" + cell.label;
    const auto repetitions = static_cast<int>(cell.launches.size());
    std::vector<double> times_ms, rates;
    for (int index = 0; index < repetitions; ++index) {
      const StoredLaunch& launch = cell.launches[static_cast<std::size_t>(index)];
      times_ms.push_back(step_ms_mean(launch));
      rates.push_back(tokens_per_s(launch));
      Json entry = benchmark_entry(name, times_ms.back(), rates.back());
      entry["run_type"] = "iteration";
      entry["repetitions"] = repetitions;
      entry["repetition_index"] = index;
      entry["iterations"] =
          std::count_if(launch.steps.begin(), launch.steps.end(), [](const StoredStep& step) { return !step.warmup; });
      benchmarks.push_back(entry);
    }
    const Summary time = summarize(times_ms), rate = summarize(rates);
    const auto aggregate = [&](const char* kind, double step_ms, double tokens) {
      Json entry = benchmark_entry(fmt::format("{}_{}", name, kind), step_ms, tokens);
      entry["run_name"] = name;
      entry["run_type"] = "aggregate";
      entry["aggregate_name"] = kind;
      entry["aggregate_unit"] = "time";
      entry["repetitions"] = repetitions;
      entry["iterations"] = repetitions;
      benchmarks.push_back(entry);
    };
    aggregate("mean", time.mean, rate.mean);
    aggregate("median", time.median, rate.median);
    aggregate("stddev", time.variation * time.mean, rate.variation * rate.mean);
  }
  const Json json = {{"context",
                      {{"date", run.started},
                       {"host_name", run.nodes.empty() ? "" : run.nodes.front().host},
                       {"executable", "moe-rl-bench"},
                       {"num_cpus", run.nodes.empty() ? 0 : run.nodes.front().cores_online},
                       {"library_build_type", run.build.starts_with("Debug") ? "debug" : "release"},
                       {"run_id", run.id},
                       {"commit", run.commit},
                       {"cpu_time", "repeats real_time: only wall time is measured"}}},
                     {"benchmarks", benchmarks}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace mrb
