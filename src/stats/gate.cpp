#include "stats/gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "stats/intervals.hpp"
#include "stats/student.hpp"

namespace mrb {

namespace {

constexpr int kPairsMin = 3;

std::string why_unusable(const GateSamples& samples) {
  const auto usable = [](double value) { return std::isfinite(value) && value > 0; };
  for (const auto* side : {&samples.before, &samples.after}) {
    const auto bad = std::find_if_not(side->begin(), side->end(), usable);
    if (bad == side->end()) continue;
    return fmt::format("launch {} {} is {}, not a positive number", bad - side->begin() + 1,
                       side == &samples.before ? "before" : "after", *bad);
  }
  if (samples.paired && samples.before.size() != samples.after.size())
    return fmt::format("{} launches before do not pair with {} after", samples.before.size(), samples.after.size());
  const std::size_t fewest = std::min(samples.before.size(), samples.after.size());
  if (fewest >= kPairsMin) return "";
  return fmt::format("{} {} are too few: at least {} are needed", fewest,
                     samples.paired ? "pairs" : "launches of a side", kPairsMin);
}

std::vector<double> logs(const std::vector<double>& values, Better better) {
  std::vector<double> result;
  for (const double value : values) result.push_back(better == Better::lower ? std::log(value) : -std::log(value));
  return result;
}

// The mean log slow-down.
RobustMean slowdown_of(const GateSamples& samples, const GatePolicy& policy) {
  const auto before = logs(samples.before, samples.better), after = logs(samples.after, samples.better);
  if (samples.paired) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < before.size(); ++i) ratios.push_back(after[i] - before[i]);
    return robust_mean(ratios);
  }
  const RobustMean a = robust_mean(before), b = robust_mean(after);
  const double va = a.standard_error * a.standard_error, vb = b.standard_error * b.standard_error;
  RobustMean difference{.mean = b.mean - a.mean, .degrees_of_freedom = 1e8};
  if (va + vb > 0) {
    difference.degrees_of_freedom =  // Welch and Satterthwaite
        (va + vb) * (va + vb) / (va * va / a.degrees_of_freedom + vb * vb / b.degrees_of_freedom);
  }
  difference.standard_error = std::sqrt(va + vb + 2 * policy.session_sd_ratio * policy.session_sd_ratio);
  return difference;
}

// The chance of a mean as high as this or higher if the truth were `truth`. Without any spread, chance has no part.
double p_above(const RobustMean& mean, double truth) {
  const double distance = mean.mean - truth;
  if (mean.standard_error == 0) return distance > 0 ? 0 : 1;
  return student_upper_tail(distance / mean.standard_error, mean.degrees_of_freedom);
}

// One or two launches far from all others are no second mode yet, but a reader must know of them.
std::string launches_apart(const GateSamples& samples) {
  constexpr double kFar = 1.1, kGapToWidth = 2;
  std::vector<double> sorted = samples.before;
  sorted.insert(sorted.end(), samples.after.begin(), samples.after.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  for (const std::size_t count : {1, 2}) {
    for (const bool low : {true, false}) {
      const std::size_t split = low ? count : n - count;  // the first of the higher group
      const double gap = std::log(sorted[split] / sorted[split - 1]);
      const double width = low ? std::log(sorted[n - 1] / sorted[split]) : std::log(sorted[split - 1] / sorted[0]);
      if (gap <= std::log(kFar) || gap <= kGapToWidth * width) continue;
      return fmt::format("{} of {} launches {} apart: up to {:.4g} on one side, from {:.4g} on the other", count, n,
                         count == 1 ? "lies" : "lie", sorted[split - 1], sorted[split]);
    }
  }
  return "";
}

}  // namespace

std::string_view gate_verdict_text(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::pass:
      return "PASS";
    case GateVerdict::fail:
      return "FAIL";
    case GateVerdict::faster:
      return "FASTER";
    case GateVerdict::inconclusive:
      break;
  }
  return "INCONCLUSIVE";
}

std::vector<GateResult> judge(std::span<const GateSamples> family, const GatePolicy& policy) {
  const double alpha = policy.alpha / policy.looks;
  std::vector<GateResult> results(family.size());
  std::vector<double> p_slower(family.size(), 1), p_faster(family.size(), 1);
  for (std::size_t i = 0; i < family.size(); ++i) {
    const GateSamples& samples = family[i];
    GateResult& result = results[i];
    result.pairs = static_cast<int>(std::min(samples.before.size(), samples.after.size()));
    result.slowdown_high = std::numeric_limits<double>::infinity();
    result.reason = why_unusable(samples);
    if (!result.reason.empty()) continue;

    const RobustMean mean = slowdown_of(samples, policy);
    const double half_width = student_quantile(1 - alpha / 2, mean.degrees_of_freedom) * mean.standard_error;
    result.slowdown = std::exp(mean.mean);
    result.slowdown_low = std::exp(mean.mean - half_width);
    result.slowdown_high = std::exp(mean.mean + half_width);
    result.sd_pair_ratio = mean.standard_error * std::sqrt(result.pairs);
    result.pairs_needed = required_pairs(result.sd_pair_ratio, samples.margin_ratio);
    if (const auto found = find_modes_over_sides(samples.before, samples.after)) {
      result.modes = found->modes;
      result.reason =
          fmt::format("the launches have two modes: {} about {:.4g} and {} about {:.4g}", found->modes.low_count,
                      found->modes.low_median, found->modes.high_count, found->modes.high_median);
      if (!found->are_sides) continue;
      result.reason += ", which nearly are before and after";
    }
    p_slower[i] = p_above(mean, 0);
    p_faster[i] = p_above({-mean.mean, mean.standard_error, mean.degrees_of_freedom}, 0);
    if (result.reason.empty()) result.reason = launches_apart(samples);
    if (result.slowdown_high < 1 + samples.margin_ratio) result.verdict = GateVerdict::pass;
  }
  const auto is_slower = holm(p_slower, alpha / 2), is_faster = holm(p_faster, alpha / 2);
  for (std::size_t i = 0; i < family.size(); ++i) {
    GateResult& result = results[i];
    const double margin = 1 + family[i].margin_ratio;
    if (is_slower[i] && result.slowdown > margin) result.verdict = GateVerdict::fail;
    if (is_faster[i] && 1 / result.slowdown > margin) result.verdict = GateVerdict::faster;
    if (result.verdict == GateVerdict::inconclusive && result.reason.empty()) {
      result.reason = result.pairs_needed > result.pairs
                          ? fmt::format("{} more pairs are needed", result.pairs_needed - result.pairs)
                          : "the slow-down is too close to the margin to say on which side of it it lies";
    }
  }
  return results;
}

GateVerdict worst_verdict(std::span<const GateResult> results) {
  const auto any = [&](GateVerdict verdict) {
    return std::any_of(results.begin(), results.end(), [=](const auto& result) { return result.verdict == verdict; });
  };
  for (const GateVerdict verdict : {GateVerdict::fail, GateVerdict::inconclusive, GateVerdict::faster}) {
    if (any(verdict)) return verdict;
  }
  return results.empty() ? GateVerdict::inconclusive : GateVerdict::pass;
}

int required_pairs(double sd_pair_ratio, double margin_ratio) {
  constexpr double kOneSided95 = 1.645, kPower80 = 0.84, kPairsMax = 1e6;
  const double root = (kOneSided95 + kPower80) * sd_pair_ratio / margin_ratio;
  return static_cast<int>(std::ceil(std::min(root * root + 2, kPairsMax)));
}

std::vector<bool> holm(std::span<const double> p_values, double alpha) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<bool> rejected(p_values.size(), false);
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (p_values[order[i]] > alpha / static_cast<double>(order.size() - i)) break;
    rejected[order[i]] = true;
  }
  return rejected;
}

}  // namespace mrb
