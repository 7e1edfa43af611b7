#include "bench/ab.hpp"

#include <algorithm>

#include "base/random.hpp"
#include "base/units.hpp"

namespace mrb {

std::string_view side_text(Side side) {
  return side == Side::before ? "before" : "after";
}

std::vector<Side> ab_block(std::uint64_t seed, int block) {
  Random random({seed, Random::order, static_cast<std::uint64_t>(block)});
  if (random.below(2) == 0) return {Side::before, Side::after, Side::after, Side::before};
  return {Side::after, Side::before, Side::before, Side::after};
}

AbOutcome run_ab(const AbPlan& plan, const Clock& clock, const AbHooks& hooks) {
  constexpr int kPairsPerBlock = 2;
  const std::int64_t began_ns = clock.now_ns();
  AbOutcome outcome;
  for (int block = 0; outcome.pairs < plan.looks.back(); ++block) {
    const double elapsed_s = hooks.agree_max(ns_to_s(clock.now_ns() - began_ns));
    if (plan.time_limit_s > 0 && elapsed_s > plan.time_limit_s) {
      outcome.end = AbEnd::time_limit;
      return outcome;
    }
    const auto order = ab_block(plan.seed, block);
    for (std::size_t i = 0; i < order.size(); ++i) {
      hooks.launch(order[i], block * kPairsPerBlock + static_cast<int>(i) / 2);
      if (!hooks.interrupted()) continue;
      outcome.end = AbEnd::interrupted;
      return outcome;
    }
    outcome.pairs += kPairsPerBlock;
    const bool is_look = std::find(plan.looks.begin(), plan.looks.end(), outcome.pairs) != plan.looks.end();
    if (is_look && hooks.decided(outcome.pairs)) {
      outcome.end = AbEnd::decided;
      return outcome;
    }
  }
  return outcome;
}

}  // namespace mrb
