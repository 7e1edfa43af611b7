#include "cli/ab_session.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "report/noise_floor.hpp"

namespace mrb {

AbSession::AbSession(const AbOptions& options)
    : options_(options),
      id_(ResultsFolder::new_id() + "-ab"),
      folder_(options.results_dir, id_),
      before_(id_, "before"),
      after_(id_, "after") {
  comparison_.before_id = id_ + "-before";
  comparison_.after_id = id_ + "-after";
  comparison_.paired = true;
}

void AbSession::add(Side which, const std::string& result_json, double launch_s) {
  side(which).add(result_json);
  write(which);
  launches_s_ += launch_s;
  const int launches = before_.launches() + after_.launches();
  std::string line =
      fmt::format("launch {:>3} of {}  {:<6}", launches, options_.plan.looks.back() * 2, side_text(which));
  const StoredRun run = side(which).run();
  for (const StoredCell& cell : run.cells) {
    if (!cell.launches.empty())
      line += fmt::format("  {} {:.0f} tokens/s", cell.label, tokens_per_s(cell.launches.back()));
  }
  line += fmt::format("  {:.1f} s\n", launch_s);
  constexpr int kFirstBlock = 4;
  if (launches == kFirstBlock) {
    const double all_s = launches_s_ / launches * options_.plan.looks.back() * 2;
    line += fmt::format("up to {} pairs will take about {:.0f} min, {:.2f} rank-hours\n", options_.plan.looks.back(),
                        all_s / 60, all_s / 3600 * run.ranks);
  }
  std::fputs(line.c_str(), stderr);
  if (launches == kFirstBlock && !options_.is_same) check_noise_floor();
}

void AbSession::check_noise_floor() {
  if (const auto floor = read_noise_floor(options_.results_dir, before_.run()))
    refuse_below_floor(*floor, options_.gate.options, options_.plan.looks.back());
}

void AbSession::write(Side which) {
  folder_.write(fmt::format("{}.json", side_text(which)), side(which).text());
}

void AbSession::compare() {
  ComparisonOptions options = options_.gate.options;
  options.policy.looks = static_cast<int>(options_.plan.looks.size());
  comparison_ = compare_runs(before_.run(), after_.run(), options);
  folder_.write("comparison.json", comparison_json(comparison_));
}

bool AbSession::decided() {
  compare();
  // The noise is what A against itself is for, so all of its pairs are wanted.
  return !options_.is_same && comparison_.verdict != GateVerdict::inconclusive;
}

int AbSession::finish(const AbOutcome& outcome, int interrupted_exit_code) {
  const bool interrupted = outcome.end == AbEnd::interrupted;
  for (const Side which : {Side::before, Side::after}) {
    if (side(which).launches() == 0) continue;
    if (!interrupted) side(which).set_complete();
    write(which);
  }
  if (interrupted) {
    std::fputs(
        fmt::format("# interrupted after {} pairs; what was measured is in {}\n", outcome.pairs, folder()).c_str(),
        stdout);
    return interrupted_exit_code;
  }
  if (before_.launches() > 0) compare();
  if (outcome.end == AbEnd::time_limit)
    comparison_.warnings.push_back(fmt::format("the time limit of {:g} s ended it after {} of {} pairs",
                                               options_.plan.time_limit_s, outcome.pairs, options_.plan.looks.back()));
  folder_.write("comparison.json", comparison_json(comparison_));
  std::fputs(options_.gate.text_of(comparison_).c_str(), stdout);
  std::fputs(fmt::format("results: {}/before.json, after.json, comparison.json\n", folder()).c_str(), stderr);
  if (options_.is_same && outcome.pairs > 0) {
    const NoiseFloor floor = noise_floor_of(comparison_);
    write_noise_floor(options_.results_dir, before_.run(), floor);
    for (const auto& [metric, sd] : floor.sd_pair_ratio) {
      std::fputs(
          fmt::format("noise floor: {}: pairs of the same differ by {:.2f}%: a margin of 3% needs {} pairs, of "
                      "5% {}, of 10% {}\n",
                      metric, sd * 100, required_pairs(sd, 0.03), required_pairs(sd, 0.05), required_pairs(sd, 0.10))
              .c_str(),
          stderr);
    }
  }
  return options_.gate.exit_code_of(comparison_);
}

}  // namespace mrb
