// How often the gate is wrong: simulated launches of known truth, under the kinds of noise that machines have.
//
// Each trial is one session of ABBA pairs with a look at 8, 16 and 24 pairs, which ends at the first verdict; two
// metrics are gated. Prints one line per noise and true slow-down. Exits 1 when a promised rate is missed.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "base/random.hpp"
#include "stats/gate.hpp"

using namespace mrb;

namespace {

constexpr int kPairsMax = 24, kLooks = 3;
constexpr double kSd = 0.02;  // of one launch

// Log time of launch `index` of a session, on top of what the side has.
using Noise = std::function<double(Random&, int index)>;

struct Kind {
  const char* name;
  std::function<Noise()> start;  // of one session
  double false_fail_max;
  double caught_min = 0;   // of a slow-down of 5%
  double unnamed_max = 1;  // sessions with a verdict that does not name what lies apart
};

double independent(Random& random) {
  return kSd * random.normal();
}

std::vector<Kind> kinds() {
  return {
      {"independent", [] { return [](Random& random, int) { return independent(random); }; }, 0.01, 0.95},
      {"heavy tails",  // 8% of launches are 5 to 25% slower
       [] {
         return [](Random& random, int) {
           const double tail = random.uniform() < 0.08 ? std::log(1.05 + 0.2 * random.uniform()) : 0;
           return independent(random) + tail;
         };
       },
       0.02, 0.95},
      {"drift of 2 sd",
       [] {
         return [](Random& random, int index) { return independent(random) + 2 * kSd * index / (2.0 * kPairsMax); };
       },
       0.01, 0.95},
      {"neighbours",  // come and go: an autoregressive load
       [] {
         return [load = 0.0](Random& random, int) mutable {
           load = 0.9 * load + kSd * random.normal();
           return independent(random) + load;
         };
       },
       0.01, 0.95},
      {"two near modes",  // 1.3 apart, half of them slow, 2% inside a mode
       [] {
         return [](Random& random, int) { return independent(random) + (random.uniform() < 0.5 ? std::log(1.3) : 0); };
       },
       0.01, 0, 0.005},
      {"rare slow mode",  // 2.45 apart, 10% slow, 3% inside a mode; some sessions never see it
       [] {
         return
             [](Random& random, int) { return 0.03 * random.normal() + (random.uniform() < 0.1 ? std::log(2.45) : 0); };
       },
       0.01},
      {"two modes",  // 2.45 apart, 46% slow, 3% inside a mode
       [] {
         return [](Random& random, int) {
           return 0.03 * random.normal() + (random.uniform() < 0.46 ? std::log(2.45) : 0);
         };
       },
       0.01, 0, 0},
  };
}

struct Session {
  GateVerdict verdict = GateVerdict::inconclusive;
  int pairs = 0;
  bool names_modes = false;
};

Session simulate(const Kind& kind, double slowdown, std::uint64_t trial) {
  Random random({trial, Random::order, static_cast<std::uint64_t>(slowdown * 1000)});
  Noise throughput_noise = kind.start(), step_noise = kind.start();
  std::vector<GateSamples> family(2);
  family[0].better = Better::higher;
  family[1].better = Better::lower;
  family[1].margin_ratio = 0.05;
  Session session;
  for (int look = 1; look <= kLooks; ++look) {
    for (; session.pairs < kPairsMax / kLooks * look; ++session.pairs) {
      double logs[2][2];  // [metric][side]; A B, then B A
      for (const int turn : {0, 1}) {
        const int side = (session.pairs + turn) % 2;
        const int index = 2 * session.pairs + turn;
        const double change = side == 1 ? std::log(slowdown) : 0;
        logs[0][side] = throughput_noise(random, index) + change;
        logs[1][side] = step_noise(random, index) + change;
      }
      family[0].before.push_back(1e5 * std::exp(-logs[0][0]));
      family[0].after.push_back(1e5 * std::exp(-logs[0][1]));
      family[1].before.push_back(1e8 * std::exp(logs[1][0]));
      family[1].after.push_back(1e8 * std::exp(logs[1][1]));
    }
    const auto results = judge(family, {.looks = kLooks});
    session.verdict = worst_verdict(results);
    session.names_modes = true;
    for (const GateResult& result : results) {
      if (result.verdict != GateVerdict::inconclusive && result.reason.empty()) session.names_modes = false;
    }
    if (session.verdict != GateVerdict::inconclusive) break;
  }
  return session;
}

bool run_cell(const Kind& kind, double slowdown, int trials) {
  int fail = 0, pass = 0, faster = 0, unknown = 0, unnamed = 0;
  double pairs = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const Session session = simulate(kind, slowdown, static_cast<std::uint64_t>(trial));
    pairs += session.pairs;
    fail += session.verdict == GateVerdict::fail ? 1 : 0;
    pass += session.verdict == GateVerdict::pass ? 1 : 0;
    faster += session.verdict == GateVerdict::faster ? 1 : 0;
    unknown += session.verdict == GateVerdict::inconclusive ? 1 : 0;
    unnamed += session.verdict != GateVerdict::inconclusive && !session.names_modes ? 1 : 0;
  }
  const auto share = [&](int count) { return static_cast<double>(count) / trials; };
  bool kept = true;
  if (slowdown == 1) kept = share(fail) <= kind.false_fail_max;
  if (slowdown == 1.05) kept = share(fail) >= kind.caught_min;
  kept = kept && share(unnamed) <= kind.unnamed_max;
  fmt::print("  {:<14} {:>9.0f} {:>8.4f} {:>8.4f} {:>8.4f} {:>13.4f} {:>8.4f} {:>11.1f}  {}\n", kind.name,
             (slowdown - 1) * 100, share(fail), share(pass), share(faster), share(unknown), share(unnamed),
             pairs / trials, kept ? "kept" : "MISSED");
  return kept;
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::atoi(argv[1]) : 2000;
  fmt::print("# {} simulated sessions a line; two gated metrics, margins 3% and 5%; looks at 8, 16 and 24 pairs\n",
             trials);
  fmt::print("# {:<14} {:>9} {:>8} {:>8} {:>8} {:>13} {:>8} {:>11}  promise\n", "noise", "slower %", "FAIL", "PASS",
             "FASTER", "INCONCLUSIVE", "unnamed", "mean pairs");
  bool all = true;
  for (const Kind& kind : kinds()) {
    for (const double slowdown : {1.0, 1.03, 1.05, 1.10}) all = run_cell(kind, slowdown, trials) && all;
  }
  fmt::print(
      "# unnamed: a verdict beside which neither modes nor launches that lie apart are named\n"
      "# promised: FAIL in at most 1% without a change (heavy tails 2%), in at least 95% when 5% slower (all but the\n"
      "# modes); unnamed: never with two modes, in at most 0.5% with two near modes\n");
  return all ? 0 : 1;
}
