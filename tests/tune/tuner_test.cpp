#include "tune/tuner.hpp"

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/random.hpp"
#include "support/catch.hpp"

using namespace mrb;
using test::Approx;
using test::contains;

namespace {

// Eight dispatchers x five batch sizes x three wire types. Faster to the middle of each axis, so the best is one point;
// the baseline is the corner, 67% slower than that.
struct Space {
  std::vector<TuneCandidate> candidates;
  std::vector<double> step_s;

  explicit Space(double model_slope = 1) {
    for (int a = 0; a < 8; ++a) {
      for (int b = 0; b < 5; ++b) {
        for (int c = 0; c < 3; ++c) {
          const double log_s = 0.02 * (a - 4) * (a - 4) + 0.03 * (b - 2) * (b - 2) + 0.07 * std::abs(c - 1);
          TuneCandidate candidate;
          candidate.name =
              "dispatcher " + std::to_string(a) + ", batch " + std::to_string(b) + ", type " + std::to_string(c);
          candidate.family = std::to_string(a);
          candidate.levels = {a, b, c};
          candidate.changes = (a > 0) + (b > 0) + (c > 0);
          if (model_slope != 0) candidate.predicted_s = 7 * std::exp(model_slope * log_s);
          candidates.push_back(candidate);
          step_s.push_back(2 * std::exp(log_s));
        }
      }
    }
  }

  double slower(int c) const {
    return step_s[static_cast<std::size_t>(c)] / step_s[static_cast<std::size_t>(4 * 15 + 2 * 3 + 1)];
  }
};

using Machine = std::function<TuneRecord(const TuneLaunch&)>;

// Own noise of 1%, and blocks that differ by 5%.
Machine machine_for(const Space& space, std::set<int> failing = {}) {
  return [&space, failing = std::move(failing)](const TuneLaunch& launch) {
    if (failing.contains(launch.candidate)) return TuneRecord{launch, LaunchOutcome::hung, 0, 60, "no answer in 60 s"};
    Random block({launch.seed, Random::chaos});
    Random own({launch.seed, Random::payload, static_cast<std::uint64_t>(launch.candidate)});
    const double log_noise = 0.05 * block.normal() + 0.01 * own.normal();
    return TuneRecord{launch, LaunchOutcome::measured,
                      space.step_s[static_cast<std::size_t>(launch.candidate)] * std::exp(log_noise), 10, ""};
  };
}

std::vector<TuneRecord> finish(Tuner& tuner, const Machine& machine) {
  std::vector<TuneRecord> records;
  while (const auto launch = tuner.next()) {
    records.push_back(machine(*launch));
    tuner.record(records.back());
  }
  return records;
}

bool has_word(const TuneAnswer& answer, const std::string& part) {
  for (const std::string& word : answer.words) {
    if (word.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the best of 120 is found and confirmed, with a model that is right, useless, upside down, or missing",
          "[tune]") {
  struct Case {
    double model_slope;
    int launches_max;
  };
  for (const Case& with : {Case{1, 60}, Case{0.01, 60}, Case{-1, 120}, Case{0, 120}}) {
    INFO("predictions to the power " << with.model_slope);
    const Space space(with.model_slope);
    Tuner tuner(space.candidates, {});
    CHECK(tuner.most_launches() == 120);
    const auto records = finish(tuner, machine_for(space));
    const TuneAnswer answer = tuner.answer();
    CHECK(answer.end == TuneEnd::confirmed);
    CHECK(space.slower(answer.winner) < 1.02);
    const double gain = space.step_s[0] / space.step_s[static_cast<std::size_t>(answer.winner)];
    CHECK(answer.gain_low < gain);
    CHECK(gain < answer.gain_high);
    CHECK(static_cast<int>(records.size()) <= with.launches_max);
    CHECK(answer.rank_correlation.has_value() == (with.model_slope != 0));
    if (with.model_slope != 0) CHECK((*answer.rank_correlation > 0) == (with.model_slope > 0));
    CHECK(has_word(answer, "no cost model") == (with.model_slope == 0));
  }
}

TEST_CASE("a model that is far off is said not to be trusted", "[tune]") {
  const Space space(-3);
  Tuner tuner(space.candidates, {});
  finish(tuner, machine_for(space));
  CHECK(has_word(tuner.answer(), "not to be trusted"));
  CHECK(space.slower(tuner.answer().winner) < 1.02);
}

TEST_CASE("every block of the race holds the incumbent, and its launches share a seed that no other block has",
          "[tune]") {
  const Space space;
  Tuner tuner(space.candidates, {});
  std::map<int, std::vector<TuneLaunch>> blocks;
  for (const TuneRecord& record : finish(tuner, machine_for(space)))
    blocks[record.launch.block].push_back(record.launch);
  std::set<int> seen = {0};
  std::set<std::uint64_t> seeds;
  std::vector<int> baseline_first;
  for (const auto& [index, launches] : blocks) {
    INFO("block " << index);
    bool known = false;
    for (const TuneLaunch& launch : launches) {
      known = known || seen.contains(launch.candidate);
      CHECK(launch.seed == launches[0].seed);
    }
    CHECK(known);
    seeds.insert(launches[0].seed);
    for (const TuneLaunch& launch : launches) seen.insert(launch.candidate);
    if (launches[0].stage == TuneStage::confirm) baseline_first.push_back(launches[0].candidate == 0);
  }
  CHECK(seeds.size() == blocks.size());
  REQUIRE(baseline_first.size() >= 6);  // forwards and backwards in turn
  for (std::size_t b = 1; b < baseline_first.size(); ++b) CHECK(baseline_first[b] != baseline_first[b - 1]);
}

TEST_CASE("the same records lead to the same launches from wherever a tuning is taken up again", "[tune]") {
  const Space space;
  const TunePolicy policy{.budget = {.launches = 48, .elapsed_s = 0}, .seed = 7};
  Tuner whole(space.candidates, policy);
  const auto records = finish(whole, machine_for(space, {3, 17, 66}));
  for (std::size_t killed = 0; killed <= records.size(); killed += 7) {
    Tuner again(space.candidates, policy);
    for (std::size_t i = 0; i < killed; ++i) again.record(records[i]);
    const auto rest = finish(again, machine_for(space, {3, 17, 66}));
    REQUIRE(rest.size() == records.size() - killed);
    for (std::size_t i = 0; i < rest.size(); ++i) {
      CHECK(rest[i].launch.candidate == records[killed + i].launch.candidate);
    }
    CHECK(again.answer().winner == whole.answer().winner);
    CHECK(again.answer().gain_ratio == whole.answer().gain_ratio);
  }
}

TEST_CASE("a record of another launch than the one that is due is refused", "[tune]") {
  const Space space;
  Tuner tuner(space.candidates, {});
  TuneRecord record = machine_for(space)(*tuner.next());
  record.launch.seed += 1;
  CHECK_THROWS_WITH(tuner.record(record), contains("is due") && contains("fix: resume with the space, budget, seed"));
}

TEST_CASE("what fails is never launched again, and says why", "[tune]") {
  const Space space;
  std::set<int> failing;  // dispatcher 4 with any batch size above 1: the best of all among them
  for (int c = 0; c < 120; ++c) {
    const std::vector<int>& levels = space.candidates[static_cast<std::size_t>(c)].levels;
    if (levels[0] == 4 && levels[1] > 1) failing.insert(c);
  }
  Tuner tuner(space.candidates, {});
  std::map<int, int> launches;
  for (const TuneRecord& record : finish(tuner, machine_for(space, failing))) ++launches[record.launch.candidate];
  for (const int c : failing) CHECK(launches[c] <= 1);
  const TuneAnswer answer = tuner.answer();
  CHECK(answer.end == TuneEnd::confirmed);
  CHECK(space.slower(answer.winner) < 1.04);  // dispatchers 3 and 5 are 2% slower than the best that there would be
  bool told = false;
  for (const TuneTrail& trail : tuner.trail()) told = told || trail.dropped == "hung: no answer in 60 s";
  CHECK(told);
}

TEST_CASE("when the finalists die in the confirmation, the next fastest are confirmed", "[tune]") {
  const Space space;
  Tuner tuner(space.candidates, {});
  std::set<int> dead;
  int last_block = -1;
  while (const auto launch = tuner.next()) {
    const bool first_confirmation =
        launch->stage == TuneStage::confirm && (last_block < 0 || launch->block == last_block);
    if (first_confirmation) last_block = launch->block;
    if (first_confirmation && launch->candidate != 0) dead.insert(launch->candidate);
    tuner.record(machine_for(space, dead)(*launch));
  }
  CHECK_FALSE(dead.empty());
  const TuneAnswer answer = tuner.answer();
  CHECK(answer.end == TuneEnd::confirmed);
  CHECK_FALSE(dead.contains(answer.winner));
}

TEST_CASE("a budget is never exceeded, and one too small for a confirmation keeps the baseline", "[tune]") {
  const Space space;
  for (const int launches : {1, 2, 5, 9, 20, 33}) {
    INFO(launches << " launches");
    Tuner tuner(space.candidates, {.budget = {.launches = launches, .elapsed_s = 0}});
    CHECK(static_cast<int>(finish(tuner, machine_for(space)).size()) <= launches);
    const TuneAnswer answer = tuner.answer();
    if (launches < 9) CHECK(answer.end == TuneEnd::budget);
    if (answer.end == TuneEnd::budget) CHECK(answer.winner == 0);
    if (launches >= 20) CHECK(answer.end == TuneEnd::confirmed);
  }
  Tuner timed(space.candidates, {.budget = {.launches = 0, .elapsed_s = 300}});
  double elapsed_s = 0;
  for (const TuneRecord& record : finish(timed, machine_for(space))) elapsed_s += record.elapsed_s;
  CHECK(elapsed_s <= 300);
  CHECK(timed.answer().end == TuneEnd::confirmed);
}

TEST_CASE("where nothing differs the baseline stays", "[tune]") {
  Space space;
  for (double& step_s : space.step_s) step_s = 2;
  for (const std::uint64_t seed : {1, 2, 3}) {
    Tuner tuner(space.candidates, {.budget = {}, .seed = seed});
    finish(tuner, machine_for(space));
    CHECK(tuner.answer().end == TuneEnd::no_difference_shown);
    CHECK(tuner.answer().winner == 0);
    CHECK(has_word(tuner.answer(), "kept the baseline"));
  }
}

TEST_CASE("of configurations that are exactly as good the simpler one wins", "[tune]") {
  Space space;  // the third axis changes nothing: its level 0, the baseline's, is the simplest
  for (std::size_t c = 0; c < space.step_s.size(); ++c) {
    const std::vector<int>& levels = space.candidates[c].levels;
    space.step_s[c] = 2 * std::exp(0.05 * (levels[0] != 4) + 0.05 * (levels[1] != 2));
    space.candidates[c].predicted_s.reset();
  }
  Tuner tuner(space.candidates, {});
  const Machine exact = [&](const TuneLaunch& launch) {
    return TuneRecord{launch, LaunchOutcome::measured, space.step_s[static_cast<std::size_t>(launch.candidate)], 10,
                      ""};
  };
  finish(tuner, exact);
  CHECK(space.candidates[static_cast<std::size_t>(tuner.answer().winner)].levels == std::vector<int>{4, 2, 0});
}

TEST_CASE("a baseline that does not run, or nothing that does, is said", "[tune]") {
  const Space space;
  Tuner without(space.candidates, {});
  finish(without, machine_for(space, {0}));
  CHECK(without.answer().end == TuneEnd::no_baseline);
  CHECK(space.slower(without.answer().winner) < 1.02);

  std::set<int> all;
  for (int c = 0; c < 120; ++c) all.insert(c);
  Tuner nothing(space.candidates, {});
  CHECK(finish(nothing, machine_for(space, all)).size() <= 60);
  CHECK(nothing.answer().end == TuneEnd::nothing_ran);

  Tuner alone({space.candidates[0]}, {});
  CHECK_FALSE(alone.next());
  CHECK(alone.answer().end == TuneEnd::no_difference_shown);
}

TEST_CASE("noise that hides everything is called that", "[tune]") {
  const Space space;
  Tuner tuner(space.candidates, {});
  finish(tuner, [&](const TuneLaunch& launch) {
    Random own({launch.seed, Random::payload, static_cast<std::uint64_t>(launch.candidate)});
    return TuneRecord{launch, LaunchOutcome::measured, std::exp(0.8 * own.normal()), 10, ""};
  });
  CHECK(tuner.answer().end == TuneEnd::too_noisy);
  CHECK(tuner.answer().winner == 0);
}
