#include "report/tuned.hpp"

#include <fmt/format.h>

#include <cmath>

#include "bench/comparison.hpp"

namespace mrb {

namespace {

std::vector<std::string> reasons(const RunInfo& info, const RunRecord& record, const Result& baseline,
                                 const Result& winner) {
  std::vector<std::string> why = {fmt::format("Chosen by moe-rl-bench run {} on {}, {} rank{}, {}.", info.id,
                                              info.nodes.front().host, info.ranks.size(),
                                              info.ranks.size() == 1 ? "" : "s", winner.source)};
  if (&winner == &baseline) {
    why.push_back(fmt::format("The baseline, {}: no variant was shown to be faster in {} block{}.",
                              baseline.experiment.label, record.blocks_done, record.blocks_done == 1 ? "" : "s"));
  } else {
    why.push_back(fmt::format("{}: {} tokens/s against the baseline, {} (95% interval over {} blocks).",
                              winner.experiment.label, ratio_text(winner.against_baseline), baseline.experiment.label,
                              winner.against_baseline.blocks));
  }
  for (const Result& other : record.results) {
    if (&other == &winner || &other == &baseline || find_baseline(record.results, other) != &baseline) continue;
    if (other.status != ResultStatus::done) continue;
    why.push_back(fmt::format("  {}: {}", other.experiment.label,
                              other.same_work ? ratio_text(other.against_baseline) : "did not do the same work"));
  }
  return why;
}

}  // namespace

std::string ratio_text(const RatioEstimate& ratio) {
  const auto percent = [](double value) { return fmt::format("{:+.1f}%", (value - 1) * 100); };
  if (ratio.blocks == 0) return "no block yet";
  if (!std::isfinite(ratio.high)) return percent(ratio.ratio) + " (one block)";
  return fmt::format("{} [{}, {}]", percent(ratio.ratio), percent(ratio.low), percent(ratio.high));
}

std::vector<TunedConfig> tuned_configs(const RunInfo& info, const RunRecord& record) {
  std::vector<TunedConfig> tuned;
  for (const Result& baseline : record.results) {
    if (find_baseline(record.results, baseline) != &baseline) continue;
    const Result& winner = choose(record.results, baseline);
    tuned.push_back({tuned.empty() ? "tuned.yaml" : fmt::format("tuned-{}.yaml", tuned.size() + 1),
                     config_yaml(winner.experiment.config, reasons(info, record, baseline, winner))});
  }
  return tuned;
}

}  // namespace mrb
