#include "report/tuned.hpp"

#include <fmt/format.h>

#include <cmath>

#include "bench/comparison.hpp"

namespace mrb {

std::string ratio_text(const RatioEstimate& ratio) {
  const auto percent = [](double value) { return fmt::format("{:+.1f}%", (value - 1) * 100); };
  if (!std::isfinite(ratio.high)) return fmt::format("{} (one block: no interval)", percent(ratio.ratio));
  return fmt::format("{} [{}, {}]", percent(ratio.ratio), percent(ratio.low), percent(ratio.high));
}

std::string tuned_yaml(const RunInfo& info, const RunRecord& record) {
  for (const Result& baseline : record.results) {
    if (!baseline.experiment.is_baseline || baseline.status != ResultStatus::done || baseline.launches.empty()) continue;
    const Result& winner = choose(record.results, baseline);
    std::vector<std::string> why = {
        fmt::format("Chosen by moe-rl-bench run {} on {}, {} ranks, measured.", info.id, info.machine.host, info.ranks.size())};
    if (&winner == &baseline) {
      why.push_back(fmt::format("The baseline, {}: no variant was shown to be faster in {} blocks.",
                                baseline.experiment.label, record.blocks_done));
    } else {
      why.push_back(fmt::format("{}: {} tokens/s against the baseline, {} (95% interval over {} blocks).", winner.experiment.label,
                                ratio_text(winner.against_baseline), baseline.experiment.label, winner.against_baseline.blocks));
    }
    for (const Result& other : record.results) {
      if (&other == &winner || &other == &baseline || find_baseline(record.results, other) != &baseline) continue;
      why.push_back(fmt::format("  {}: {}", other.experiment.label,
                                other.same_work ? ratio_text(other.against_baseline) : "did not do the same work"));
    }
    return config_yaml(winner.experiment.config, why);
  }
  return "";
}

}  // namespace mrb
