// How good the tuner is: synthetic landscapes of known truth, under the kinds of noise and of error that there are.
//
//   tune_landscapes [TRIALS] [ONLY LANDSCAPES WITH THIS IN THEIR NAME] [FIRST SEED]
//
// Each trial draws a new landscape, cost model and noise from its seed. Beside the tuner run random search, successive
// halving and exhaustive search, on the same landscapes. Prints one line per landscape and method. Exits 1 when the
// tuner misses a promise. Everything here is simulated: it says nothing about any machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "tune/tuner.hpp"

using namespace mrb;

namespace {

enum class Model { usual_error, family_error, axis_error, shuffled, upside_down, wrong_family, none };
enum class Truth { axes, no_structure, flat, baseline_best };

struct Landscape {
  const char* name;
  int points;
  int launches_max;  // promised
  Truth truth = Truth::axes;
  Model model = Model::usual_error;
  double noise = 0.012;       // of one launch
  double block_noise = 0.04;  // shared by a block
  double drift = 0;           // over 60 launches
  double tails = 0;           // the share of launches that are 10 to 40% slower
  double infeasible = 0;      // the share of points that fail, in a few regions
  bool cliffs = false;
  bool ties = false;  // half of the axes change nothing
  double within_min = 0.95;
  double false_max = 0.02;
  TuneBudget budget = {};
};

const std::vector<Landscape>& landscapes() {
  static const std::vector<Landscape> kAll = {
      {.name = "axes 200", .points = 200, .launches_max = 60},
      {.name = "axes 1000", .points = 1000, .launches_max = 60},
      {.name = "axes 5000", .points = 5000, .launches_max = 60},
      {.name = "no structure 200", .points = 200, .launches_max = 60, .truth = Truth::no_structure},
      {.name = "no structure 5000", .points = 5000, .launches_max = 60, .truth = Truth::no_structure},
      {.name = "family error 1000", .points = 1000, .launches_max = 60, .model = Model::family_error},
      {.name = "axis error 1000", .points = 1000, .launches_max = 60, .model = Model::axis_error},
      {.name = "noise doubled 1000", .points = 1000, .launches_max = 60, .noise = 0.025},
      {.name = "drift 1000", .points = 1000, .launches_max = 60, .drift = 0.2},
      {.name = "heavy tails 1000", .points = 1000, .launches_max = 60, .tails = 0.05},
      {.name = "cliffs 1000", .points = 1000, .launches_max = 60, .cliffs = true},
      {.name = "infeasible 1000", .points = 1000, .launches_max = 60, .infeasible = 0.3},
      {.name = "ties 1000", .points = 1000, .launches_max = 60, .ties = true},
      {.name = "everything 2000", .points = 2000, .launches_max = 60, .drift = 0.1, .infeasible = 0.2, .cliffs = true},
      {.name = "shuffled model 200", .points = 200, .launches_max = 120, .model = Model::shuffled},
      {.name = "shuffled model 1000", .points = 1000, .launches_max = 120, .model = Model::shuffled},
      {.name = "shuffled model 5000", .points = 5000, .launches_max = 120, .model = Model::shuffled},
      {.name = "upside-down model 200", .points = 200, .launches_max = 120, .model = Model::upside_down},
      {.name = "upside-down model 5000", .points = 5000, .launches_max = 120, .model = Model::upside_down},
      {.name = "wrong family 1000", .points = 1000, .launches_max = 120, .model = Model::wrong_family},
      {.name = "no model 1000", .points = 1000, .launches_max = 120, .model = Model::none},
      {.name = "flat 200", .points = 200, .launches_max = 60, .truth = Truth::flat},
      {.name = "flat, tails, drift 1000",
       .points = 1000,
       .launches_max = 60,
       .truth = Truth::flat,
       .drift = 0.2,
       .tails = 0.05},
      {.name = "baseline best 1000", .points = 1000, .launches_max = 60, .truth = Truth::baseline_best},
  };
  return kAll;
}

// One drawn landscape: candidates as the tuner sees them, and what it does not see.
struct World {
  std::vector<TuneCandidate> candidates;
  std::vector<double> log_s;
  std::vector<LaunchOutcome> outcome;
  double best_log_s = 0;

  double regret(int c) const { return std::expm1(log_s[static_cast<std::size_t>(c)] - best_log_s); }
};

class Draw {
 public:
  Draw(const Landscape& landscape, std::uint64_t trial) : landscape_(landscape), random_({trial, Random::routing}) {}

  World world() {
    draw_axes();
    for (const auto& levels : points_) {
      world_.candidates.emplace_back();
      world_.candidates.back().levels = levels;
    }
    draw_truth();
    draw_failures();
    choose_baseline();
    draw_model();
    for (std::size_t c = 0; c < world_.candidates.size(); ++c) describe(c);
    return std::move(world_);
  }

 private:
  // Axes of two to six levels until the space is as large as asked for; some points at random are left out.
  void draw_axes() {
    double size = 1;
    while (size < landscape_.points) {
      sizes_.push_back(2 + static_cast<int>(random_.below(5)));
      size *= sizes_.back();
    }
    std::vector<int> levels(sizes_.size());
    std::vector<std::vector<int>> all;
    for (bool more = true; more;) {
      all.push_back(levels);
      more = false;
      for (std::size_t axis = 0; axis < levels.size() && !more; ++axis) {
        levels[axis] = (levels[axis] + 1) % sizes_[axis];
        more = levels[axis] != 0;
      }
    }
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random_.below(i)]);
    all.resize(std::min(all.size(), static_cast<std::size_t>(landscape_.points)));
    points_ = std::move(all);
  }

  bool dead(std::size_t axis) const { return landscape_.ties && axis % 2 == 1; }

  // Main effects of names (each level its own) and of numbers (a bowl), effects of pairs of axes, and a point's own.
  void draw_truth() {
    const std::size_t axes = sizes_.size();
    std::vector<std::function<double(const std::vector<int>&)>> effects;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      if (dead(axis)) continue;
      std::vector<double> of_level;
      const double best = random_.uniform(), bend = 0.5 * std::abs(random_.normal());
      const bool number = axis % 2 == 1;
      for (int level = 0; level < sizes_[axis]; ++level) {
        const double place = static_cast<double>(level) / (sizes_[axis] - 1);
        of_level.push_back(number ? bend * (place - best) * (place - best) : 0.15 * random_.normal());
      }
      effects.push_back([=](const std::vector<int>& at) { return of_level[static_cast<std::size_t>(at[axis])]; });
    }
    for (std::size_t pair = 0; pair + 1 < axes; ++pair) {
      const std::size_t a = random_.below(axes), b = random_.below(axes);
      if (a == b || dead(a) || dead(b)) continue;
      std::vector<double> of_levels;
      for (int i = 0; i < sizes_[a] * sizes_[b]; ++i) of_levels.push_back(0.06 * random_.normal());
      effects.push_back([=, width = sizes_[b]](const std::vector<int>& at) {
        return of_levels[static_cast<std::size_t>(at[a] * width + at[b])];
      });
    }
    if (landscape_.cliffs) {
      for (const std::vector<int>& corner : corners(4)) {
        effects.push_back([=](const std::vector<int>& at) { return inside(at, corner) ? 0.5 : 0.0; });
      }
    }
    const double own = landscape_.ties ? 0 : 0.02;
    for (const std::vector<int>& at : points_) {
      double log_s = 0;
      if (landscape_.truth == Truth::no_structure) {
        log_s = 0.12 * std::abs(random_.normal());
      } else if (landscape_.truth != Truth::flat) {
        for (const auto& effect : effects) log_s += effect(at);
        log_s += own * random_.normal();
      }
      world_.log_s.push_back(log_s);
    }
  }

  // Regions in which two or three axes have a given level; -1: any level.
  std::vector<std::vector<int>> corners(int count) {
    std::vector<std::vector<int>> result;
    for (int i = 0; i < count; ++i) {
      std::vector<int> corner(sizes_.size(), -1);
      for (int fixed = 0; fixed < 2; ++fixed) {
        const std::size_t axis = random_.below(sizes_.size());
        corner[axis] = static_cast<int>(random_.below(static_cast<std::uint64_t>(sizes_[axis])));
      }
      result.push_back(corner);
    }
    return result;
  }

  static bool inside(const std::vector<int>& at, const std::vector<int>& corner) {
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      if (corner[axis] >= 0 && at[axis] != corner[axis]) return false;
    }
    return true;
  }

  void draw_failures() {
    world_.outcome.assign(points_.size(), LaunchOutcome::measured);
    const auto most = static_cast<std::size_t>(landscape_.infeasible * static_cast<double>(points_.size()));
    std::size_t failing = 0;
    for (int tries = 0; failing < most && tries < 50; ++tries) {
      const std::vector<int> corner = corners(1)[0];
      const auto outcome = static_cast<LaunchOutcome>(1 + tries % 3);
      std::vector<std::size_t> hit;
      for (std::size_t c = 0; c < points_.size(); ++c) {
        if (world_.outcome[c] == LaunchOutcome::measured && inside(points_[c], corner)) hit.push_back(c);
      }
      if (failing + hit.size() > most + points_.size() / 10) continue;
      for (const std::size_t c : hit) world_.outcome[c] = outcome;
      failing += hit.size();
    }
  }

  // Somebody's defaults: a point that runs, in no way special unless the landscape says so.
  void choose_baseline() {
    std::size_t chosen = 0;
    world_.best_log_s = INFINITY;
    for (std::size_t c = 0; c < points_.size(); ++c) {
      if (world_.outcome[c] != LaunchOutcome::measured) continue;
      const bool better = world_.log_s[c] < world_.best_log_s;
      if (better) world_.best_log_s = world_.log_s[c];
      if (landscape_.truth == Truth::baseline_best ? better : world_.outcome[chosen] != LaunchOutcome::measured)
        chosen = c;
    }
    std::swap(world_.candidates[0], world_.candidates[chosen]);
    std::swap(world_.log_s[0], world_.log_s[chosen]);
    std::swap(world_.outcome[0], world_.outcome[chosen]);
  }

  void draw_model() {
    constexpr double kError = 0.15;
    const std::size_t count = world_.log_s.size();
    std::vector<double> of_family(64);
    for (double& error : of_family) error = kError / std::sqrt(2.0) * random_.normal();
    std::vector<std::vector<double>> of_axis;  // as wrong about each axis as about any other
    for (const int levels : sizes_) {
      of_axis.emplace_back();
      for (int level = 0; level < levels; ++level) {
        of_axis.back().push_back(kError / std::sqrt(static_cast<double>(sizes_.size())) * random_.normal());
      }
    }
    std::vector<std::size_t> other(count);
    std::iota(other.begin(), other.end(), std::size_t{0});
    for (std::size_t i = count; i > 1; --i) std::swap(other[i - 1], other[random_.below(i)]);
    const double middle = std::accumulate(world_.log_s.begin(), world_.log_s.end(), 0.0) / static_cast<double>(count);
    const std::size_t favoured = family(random_.below(count));
    for (std::size_t c = 0; c < count; ++c) {
      const double truth = world_.log_s[c], error = random_.normal() * kError;
      double log_s = truth + error;
      switch (landscape_.model) {
        case Model::usual_error:
          break;
        case Model::family_error:
          log_s = truth + error / std::sqrt(2.0) + of_family[family(c)];
          break;
        case Model::axis_error:
          log_s = truth;
          for (std::size_t axis = 0; axis < of_axis.size(); ++axis) {
            log_s += of_axis[axis][static_cast<std::size_t>(world_.candidates[c].levels[axis])];
          }
          break;
        case Model::shuffled:
          log_s = world_.log_s[other[c]];
          break;
        case Model::upside_down:
          log_s = 2 * middle - truth + error;
          break;
        case Model::wrong_family:
          log_s = truth + error + (family(c) == favoured ? -0.7 : 0.0);
          break;
        case Model::none:
          continue;
      }
      world_.candidates[c].predicted_s = 3 * std::exp(log_s);
    }
  }

  std::size_t family(std::size_t c) const {
    const std::vector<int>& levels = world_.candidates[c].levels;
    return static_cast<std::size_t>(levels[0] * 6 + levels[1]);
  }

  void describe(std::size_t c) {
    TuneCandidate& candidate = world_.candidates[c];
    candidate.family = std::to_string(family(c));
    candidate.name = fmt::format("point {}", c);
    for (std::size_t axis = 0; axis < candidate.levels.size(); ++axis) {
      candidate.changes += candidate.levels[axis] != world_.candidates[0].levels[axis] ? 1 : 0;
    }
  }

  const Landscape& landscape_;
  Random random_;
  World world_;
  std::vector<int> sizes_;
  std::vector<std::vector<int>> points_;
};

// The machine: what a launch takes, with all that disturbs it.
class Machine {
 public:
  Machine(const Landscape& landscape, const World& world, std::uint64_t trial)
      : landscape_(landscape), world_(world), random_({trial, Random::payload}) {}

  // Nothing when it fails.
  std::optional<double> launch(int c, int block) {
    if (block != block_) block_ = block, block_effect_ = landscape_.block_noise * random_.normal();
    ++launches;
    if (world_.outcome[static_cast<std::size_t>(c)] != LaunchOutcome::measured) return std::nullopt;
    walk_ += landscape_.drift / 20 * random_.normal();
    const double drift = landscape_.drift * launches / 60.0 + walk_;
    const double tail = random_.uniform() < landscape_.tails ? std::log(1.1 + 0.3 * random_.uniform()) : 0;
    return std::exp(world_.log_s[static_cast<std::size_t>(c)] + block_effect_ + drift + tail +
                    landscape_.noise * random_.normal());
  }

  int launches = 0;

 private:
  const Landscape& landscape_;
  const World& world_;
  Random random_;
  int block_ = -1;
  double block_effect_ = 0, walk_ = 0;
};

struct Outcome {
  int winner = 0;
  bool gain_declared = false;
  double gain_low = 0, gain_high = INFINITY;  // of the gain, where one is given
  double expected_gain = 1;                   // true, of what the interval is of
  int launches = 0;
};

Outcome run_tuner(const Landscape& landscape, const World& world, std::uint64_t trial, bool local_moves) {
  Tuner tuner(world.candidates, {.budget = landscape.budget, .seed = trial, .local_moves = local_moves});
  Machine machine(landscape, world, trial);
  while (const auto launch = tuner.next()) {
    const auto step_s = machine.launch(launch->candidate, launch->block);
    const LaunchOutcome outcome = world.outcome[static_cast<std::size_t>(launch->candidate)];
    tuner.record({*launch, outcome, step_s.value_or(0), 10, step_s ? "" : "simulated"});
  }
  const TuneAnswer answer = tuner.answer();
  Outcome result{answer.winner,   answer.end == TuneEnd::confirmed, answer.gain_low, answer.gain_high, 1,
                 machine.launches};
  if (answer.finalist) {
    result.expected_gain = std::exp(world.log_s[0] - world.log_s[static_cast<std::size_t>(*answer.finalist)]);
  } else {
    result.gain_low = 0, result.gain_high = INFINITY;
  }
  return result;
}

// The least of one launch each, as sweeps are read; a gain is declared whenever it is not the baseline.
Outcome least_of(const std::vector<int>& candidates, Machine& machine) {
  Outcome outcome;
  double least = INFINITY;
  for (const int c : candidates) {
    const auto step_s = machine.launch(c, machine.launches / 12);
    if (step_s && *step_s < least) least = *step_s, outcome.winner = c;
  }
  outcome.gain_declared = outcome.winner != 0;
  outcome.launches = machine.launches;
  return outcome;
}

std::vector<int> in_random_order(std::size_t count, std::uint64_t trial) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  Random random({trial, Random::order});
  for (std::size_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

Outcome run_random(const Landscape& landscape, const World& world, std::uint64_t trial) {
  Machine machine(landscape, world, trial);
  std::vector<int> order = in_random_order(world.candidates.size(), trial);
  order.resize(std::min(order.size(), static_cast<std::size_t>(landscape.launches_max)));
  return least_of(order, machine);
}

Outcome run_exhaustive(const Landscape& landscape, const World& world, std::uint64_t trial) {
  Machine machine(landscape, world, trial);
  return least_of(in_random_order(world.candidates.size(), trial), machine);
}

// Rungs in blocks, of the best predicted (without predictions, of any); the better half stays by the mean of its
// log times, less what their block adds. Its rungs fill the same budget as the tuner's.
Outcome run_halving(const Landscape& landscape, const World& world, std::uint64_t trial) {
  Machine machine(landscape, world, trial);
  std::vector<int> alive = in_random_order(world.candidates.size(), trial);
  if (landscape.model != Model::none) {
    std::sort(alive.begin(), alive.end(), [&](int a, int b) {
      return *world.candidates[static_cast<std::size_t>(a)].predicted_s <
             *world.candidates[static_cast<std::size_t>(b)].predicted_s;
    });
  }
  const auto rungs = static_cast<std::size_t>(std::lround(std::log2(landscape.launches_max / 4.0)));
  alive.resize(std::min(alive.size(), landscape.launches_max / rungs));
  for (int rung = 0, block = 0; machine.launches < landscape.launches_max && !alive.empty(); ++rung) {
    std::vector<double> sum(world.candidates.size(), 0);
    const int repeats = 1 << rung;
    for (int repeat = 0; repeat < repeats; ++repeat, ++block) {
      std::vector<int> ran;
      for (const int c : alive) {
        if (machine.launches >= landscape.launches_max) break;
        const auto step_s = machine.launch(c, block);
        if (step_s)
          sum[static_cast<std::size_t>(c)] += std::log(*step_s), ran.push_back(c);
        else
          sum[static_cast<std::size_t>(c)] = INFINITY;
      }
      if (machine.launches >= landscape.launches_max) break;
      alive = ran;
    }
    std::sort(alive.begin(), alive.end(),
              [&](int a, int b) { return sum[static_cast<std::size_t>(a)] < sum[static_cast<std::size_t>(b)]; });
    if (alive.size() < 2) break;
    alive.resize((alive.size() + 1) / 2);
  }
  Outcome outcome;
  outcome.winner = alive.empty() ? 0 : alive[0];
  outcome.gain_declared = outcome.winner != 0;
  outcome.launches = machine.launches;
  return outcome;
}

struct Method {
  const char* name;
  std::function<Outcome(const Landscape&, const World&, std::uint64_t)> run;
};

bool run_line(const Landscape& landscape, const Method& method, int trials, std::uint64_t first_seed, bool judged) {
  std::vector<double> regrets;
  double launches = 0, covered = 0;
  int launches_max = 0, within = 0, false_gains = 0;
  const std::int64_t start_ns = steady_now_ns();
  for (int trial = 0; trial < trials; ++trial) {
    const auto seed = first_seed + static_cast<std::uint64_t>(trial);
    const World world = Draw(landscape, seed).world();
    const Outcome outcome = method.run(landscape, world, seed);
    const double regret = world.regret(outcome.winner);
    regrets.push_back(regret);
    launches += outcome.launches;
    launches_max = std::max(launches_max, outcome.launches);
    within += regret <= 0.02 ? 1 : 0;
    false_gains +=
        outcome.gain_declared && world.log_s[static_cast<std::size_t>(outcome.winner)] >= world.log_s[0] ? 1 : 0;
    covered += outcome.gain_low <= outcome.expected_gain && outcome.expected_gain <= outcome.gain_high ? 1 : 0;
  }
  const double seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  std::sort(regrets.begin(), regrets.end());
  const auto share = [&](double count) { return count / trials; };
  const double mean = std::accumulate(regrets.begin(), regrets.end(), 0.0) / trials;
  const bool kept = share(within) >= landscape.within_min && share(false_gains) <= landscape.false_max &&
                    launches_max <= landscape.launches_max;
  fmt::print("{:<24} {:<20} {:>8.1f} {:>5} {:>8.2f} {:>8.2f} {:>8.3f} {:>8.3f} {:>8} {:>7.0f}  {}\n", landscape.name,
             method.name, launches / trials, launches_max, mean * 100, regrets[regrets.size() * 95 / 100] * 100,
             share(within), share(false_gains), judged ? fmt::format("{:.3f}", share(covered)) : "-",
             seconds * 1e3 / trials,
             !judged ? ""
             : kept  ? "kept"
                     : "MISSED");
  std::fflush(stdout);
  return kept || !judged;
}

}  // namespace

int main(int argc, char** argv) {
  const int trials = argc > 1 ? std::atoi(argv[1]) : 200;
  const std::string only = argc > 2 ? argv[2] : "";
  const std::uint64_t first_seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  if (trials < 1) {
    fmt::print(stderr, "usage: tune_landscapes [TRIALS] [ONLY LANDSCAPES WITH THIS IN THEIR NAME] [FIRST SEED]\n");
    return 2;
  }
  const std::vector<Method> methods = {
      {"tune", [](const auto& l, const auto& w, auto t) { return run_tuner(l, w, t, true); }},
      {"without local moves", [](const auto& l, const auto& w, auto t) { return run_tuner(l, w, t, false); }},
      {"successive halving", run_halving},
      {"random search", run_random},
      {"exhaustive, once each", run_exhaustive},
  };
  fmt::print(
      "# simulated; {} trials a line, from seed {}; cost model's error 15% unless said; regret and shares against the "
      "true best\n",
      trials, first_seed);
  fmt::print("# {:<22} {:<20} {:>8} {:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7}  promise\n", "landscape", "method",
             "launches", "max", "regret %", "p95 %", "in 2%", "false", "covered", "ms");
  bool kept = true;
  for (const Landscape& landscape : landscapes()) {
    if (std::string(landscape.name).find(only) == std::string::npos) continue;
    for (const Method& method : methods)
      kept = run_line(landscape, method, trials, first_seed, &method == &methods[0]) && kept;
  }
  return kept ? 0 : 1;
}
