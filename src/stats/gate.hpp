// Did this change make it slower? A verdict with four values, so that "cannot say" never passes for "no".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stats/modes.hpp"

namespace mrb {

enum class GateVerdict {
  pass,          // shown to be slower by less than the margin, if at all
  fail,          // shown to be slower, and by more than the margin
  faster,        // shown to be faster, and by more than the margin
  inconclusive,  // none of these could be shown
};
std::string_view gate_verdict_text(GateVerdict);  // "PASS", "FAIL", "FASTER", "INCONCLUSIVE"

enum class Better { higher, lower };

// One metric of both sides, one value per launch, all positive.
struct GateSamples {
  std::vector<double> before;
  std::vector<double> after;  // of a paired design: as many, each launched next to its counterpart
  bool paired = true;
  Better better = Better::higher;
  double margin_ratio = 0.03;  // slower by less than this is as good as before
};

struct GatePolicy {
  double alpha = 0.05;          // the chance of a wrong claim, both directions and all looks together
  int looks = 1;                // at how many sizes the data are looked at; each gets its part of alpha
  double session_sd_ratio = 0;  // how much whole sessions differ from each other; widens unpaired intervals
};

// What is known of one metric. Slow-down: of a rate the ratio before/after, of a time after/before; 1.05 is 5% slower.
struct GateResult {
  GateVerdict verdict = GateVerdict::inconclusive;
  double slowdown = 1;
  double slowdown_low = 0;  // interval with confidence 1 - alpha / looks; 0 to infinity when it is not known
  double slowdown_high = 0;
  int pairs = 0;                  // or the launches of the smaller side, when unpaired
  double sd_pair_ratio = 0;       // standard deviation of the log ratio of one pair
  int pairs_needed = 0;           // to decide about this margin with this noise; 0: unknown
  std::optional<TwoModes> modes;  // found; then inconclusive, unless they nearly are the sides
  std::string reason;             // why inconclusive, or what a reader must know
};

// The verdict of each of a family of metrics.
//
// The estimate is the robust_mean() of the pairs' log ratios with Student's interval; unpaired, the difference of the
// sides' robust means with Welch's. FAIL: the slow-down is above the margin and is more than none with a one-sided
// error of alpha / 2 / looks, which Holm's procedure divides over the metrics. FASTER: the same the other way. PASS: the
// upper end of the interval is below the margin; all metrics must pass for a pass of the family, which needs no division.
// Two modes give no verdict but their names, and are named beside the verdict when they nearly are the sides
// (find_modes_over_sides()). Fewer
// than three pairs, values that are not positive and finite, or sides of unequal length give `inconclusive` and say why.
std::vector<GateResult> judge(std::span<const GateSamples> family, const GatePolicy&);

// The family's verdict: FAIL if one fails, else INCONCLUSIVE if one is, else FASTER if one is faster, else PASS; an
// empty family is inconclusive.
GateVerdict worst_verdict(std::span<const GateResult>);

// Pairs that show a change of `margin_ratio`, or its absence, in 80% of cases with a one-sided error of 5%:
// ((1.645 + 0.84) sd / margin)^2, and two more for the spread being estimated too.
int required_pairs(double sd_pair_ratio, double margin_ratio);

// Which of these p-values are rejected when the chance of any wrong rejection is to stay below alpha (Holm, 1979).
std::vector<bool> holm(std::span<const double> p_values, double alpha);

}  // namespace mrb
