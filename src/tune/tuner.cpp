#include "tune/tuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "base/random.hpp"
#include "tune/confirmation.hpp"
#include "tune/elimination.hpp"
#include "tune/measured.hpp"
#include "tune/search.hpp"
#include "tune/surrogate.hpp"

namespace mrb {

namespace {

// What a tuning takes without a tighter budget: with a cost model that is right within its usual error, and without one.
constexpr int kLaunchesWithModel = 60, kLaunchesWithout = 120;
// The standard deviation of log measured over predicted, up to which a model counts as right.
constexpr double kModelErrorMax = 0.28;

constexpr int kBlockLaunches = 8;     // of the search: long enough to compare, short enough that drift does not matter
constexpr int kOpeningLaunches = 12;  // of the first block, which has every family
constexpr int kLocalLaunches = 6;     // kept for local moves
constexpr double kGainMin = 1e-5;     // the search ends when no launch is expected to gain this much
constexpr double kEliminationAlpha = 0.05;
constexpr int kLooks = 12;  // that the race takes at most

constexpr int kConfirmBlocksMin = 6, kConfirmBlocksMax = 12;
constexpr int kConfirmBlocksFewest = 3;  // of a small budget; fewer show nothing
constexpr double kNoiseUsual = 0.012;    // of one launch; a search has too few repeats to believe less
constexpr double kNoiseMax = 0.10;       // of one launch

}  // namespace

std::string_view tune_stage_text(TuneStage stage) {
  constexpr std::string_view kTexts[] = {"race", "local", "confirm"};
  return kTexts[static_cast<std::size_t>(stage)];
}

std::string_view launch_outcome_text(LaunchOutcome outcome) {
  constexpr std::string_view kTexts[] = {"measured", "wrong_result", "failed", "hung"};
  return kTexts[static_cast<std::size_t>(outcome)];
}

std::string_view tune_end_text(TuneEnd end) {
  constexpr std::string_view kTexts[] = {"confirmed", "no difference shown", "too noisy",
                                         "budget",    "no baseline",         "nothing ran"};
  return kTexts[static_cast<std::size_t>(end)];
}

struct Tuner::State {
  State(std::vector<TuneCandidate> all, const TunePolicy& with)
      : candidates(std::move(all)), policy(with), surrogate(candidates), dropped(candidates.size()) {
    has_model = std::any_of(candidates.begin(), candidates.end(), [](const auto& c) { return c.predicted_s; });
    if (candidates.size() > 1) {
      plan_block(opening_block(candidates, std::min(kOpeningLaunches, search_launches_left())));
    }
    if (queue.empty()) ended = true;
  }

  std::vector<TuneCandidate> candidates;
  TunePolicy policy;
  Surrogate surrogate;
  bool has_model = false;
  std::optional<double> model_error_found;  // above what counts as right; stays, for the budget follows from it

  std::vector<TuneRecord> records;
  std::vector<Observation> observations;
  std::vector<std::string> dropped;  // per candidate: why
  std::vector<TuneLaunch> queue;     // what is left of the block, next first; of the confirmation, all its blocks
  TuneStage stage = TuneStage::race;
  int block = 0;
  std::vector<int> finalists;  // best first, without the baseline
  bool ended = false;

  const TuneCandidate& at(int c) const { return candidates[static_cast<std::size_t>(c)]; }
  bool alive(int c) const { return dropped[static_cast<std::size_t>(c)].empty(); }

  std::vector<int> launched() const {  // measured at least once and still in the race
    std::set<int> found;
    for (const Observation& observation : observations) {
      if (alive(observation.candidate)) found.insert(observation.candidate);
    }
    return {found.begin(), found.end()};
  }

  // ---- budget

  // The sd of log measured over predicted inside blocks; none while too few were launched to tell.
  std::optional<double> model_error() const {
    std::map<int, std::vector<double>> blocks;
    std::set<int> seen;
    for (const Observation& observation : observations) {
      const auto& predicted = at(observation.candidate).predicted_s;
      if (!predicted || !seen.insert(observation.candidate).second) continue;
      blocks[observation.block].push_back(observation.log_s - std::log(*predicted));
    }
    double squares = 0, degrees_of_freedom = 0;
    for (const auto& [index, logs] : blocks) {
      const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / static_cast<double>(logs.size());
      for (const double log : logs) squares += (log - mean) * (log - mean);
      degrees_of_freedom += static_cast<double>(logs.size()) - 1;
    }
    if (degrees_of_freedom < 8) return std::nullopt;
    return std::sqrt(squares / degrees_of_freedom);
  }

  bool model_trusted() const { return has_model && !model_error_found; }

  double elapsed_s() const {
    return std::accumulate(records.begin(), records.end(), 0.0,
                           [](double sum, const TuneRecord& record) { return sum + record.elapsed_s; });
  }

  int launches_allowed() const {
    int allowed = model_trusted() ? kLaunchesWithModel : kLaunchesWithout;
    if (policy.budget.launches > 0) allowed = std::min(allowed, policy.budget.launches);
    if (policy.budget.elapsed_s > 0 && !records.empty()) {
      const double each_s = elapsed_s() / static_cast<double>(records.size());
      const double more = each_s > 0 ? (policy.budget.elapsed_s - elapsed_s()) / each_s : allowed;
      allowed = std::min(allowed, static_cast<int>(records.size()) + static_cast<int>(std::clamp(more, 0.0, 1e6)));
    }
    return allowed;
  }

  int launches_left() const { return launches_allowed() - static_cast<int>(records.size()); }

  // What is left when the confirmation has got what it is likely to need.
  int search_launches_left() const {
    const int most = launches_allowed() * 2 / 5;
    if (launched().empty() || !alive(0)) return launches_left() - std::min(3 * kConfirmBlocksMin, most);
    const Confirmation plan = plan_for(least_gain(leader()), most);
    return launches_left() - plan.blocks * (plan.finalists + 1);
  }

  // The log of the gain over the baseline, less two standard deviations of what is believed about it.
  double least_gain(int c) const {
    if (c == 0) return 0;
    const Beliefs beliefs = surrogate.beliefs({0, c});
    const double variance = beliefs.variance[0] + beliefs.variance[1] - 2 * beliefs.covariance(0, 1);
    return beliefs.mean[0] - beliefs.mean[1] - 2 * std::sqrt(std::max(variance, 0.0));
  }

  struct Confirmation {
    int finalists = 0, blocks = 0;
  };

  // The fastest is confirmed against the baseline and the runner-up. Where the baseline itself is the close rival, all
  // launches go into that comparison.
  Confirmation plan_for(double log_gain, int launches) const {
    const double noise_sd = std::max(surrogate.noise_sd(), kNoiseUsual);
    const int most = std::min(kConfirmBlocksMax, launches / 2);
    const bool clear = blocks_to_show(log_gain, noise_sd, 2, kConfirmBlocksMin, kConfirmBlocksMax) == kConfirmBlocksMin;
    if (clear && launches >= 3 * kConfirmBlocksMin) return {2, kConfirmBlocksMin};
    if (clear) return {1, std::min(kConfirmBlocksMin, most)};
    return {1, blocks_to_show(log_gain, noise_sd, 1, std::min(kConfirmBlocksMin, most), most)};
  }

  // ---- planning

  void plan_block(const std::vector<int>& members) {
    std::vector<int> order = members;
    Random random({policy.seed, Random::order, static_cast<std::uint64_t>(block)});
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    append_block(order);
  }

  void append_block(const std::vector<int>& order) {
    const std::uint64_t seed = Random({policy.seed, Random::prompts, static_cast<std::uint64_t>(block)}).next();
    for (const int c : order) queue.push_back({c, stage, block, seed});
    ++block;
  }

  int leader() const {
    const std::vector<int> known = launched();
    const Beliefs beliefs = surrogate.beliefs(known);
    const auto best = std::min_element(beliefs.mean.begin(), beliefs.mean.end());
    return known[static_cast<std::size_t>(best - beliefs.mean.begin())];
  }

  void plan() {
    if (launched().empty()) {
      ended = !open_again();
      return;
    }
    surrogate.fit(observations);
    if (has_model && model_trusted() && model_error().value_or(0) > kModelErrorMax) model_error_found = model_error();
    if (stage == TuneStage::confirm) return plan_confirmation();  // its finalists may have died
    eliminate_losers();
    plan_search();
  }

  // When all of a block failed: those that nobody tried, best predicted first.
  bool open_again() {
    std::vector<TuneCandidate> untried;
    std::vector<int> index;
    for (int c = 0; c < static_cast<int>(candidates.size()); ++c) {
      if (alive(c)) untried.push_back(at(c)), index.push_back(c);
    }
    const int size = std::min(kBlockLaunches, search_launches_left());
    if (untried.empty() || size < 1) return false;
    std::vector<int> members;
    for (const int i : opening_block(untried, size)) members.push_back(index[static_cast<std::size_t>(i)]);
    plan_block(members);
    return true;
  }

  void eliminate_losers() {
    const int best = leader();
    for (const Elimination& shown : eliminate(observations, best, kEliminationAlpha, kLooks)) {
      dropped[static_cast<std::size_t>(shown.candidate)] =
          fmt::format("{:.1f}% slower than {} (paired test over {} {}, p = {:.2g})", (shown.slower_ratio - 1) * 100,
                      at(best).name, shown.blocks, shown.blocks == 1 ? "block" : "blocks", shown.p_value);
    }
  }

  void plan_search() {
    const int left = search_launches_left(), incumbent = leader();
    const bool local_left = policy.local_moves && stage == TuneStage::race;
    if (stage == TuneStage::race && left - (local_left ? kLocalLaunches : 0) >= 2) {
      if (plan_picks(incumbent, left, [&](int) { return true; })) return;
    }
    stage = TuneStage::local;
    if (policy.local_moves && left >= 2) {
      if (plan_picks(incumbent, left, [&](int c) { return moves_apart(at(c), at(incumbent)) == 1; })) return;
    }
    stage = TuneStage::confirm;
    plan_confirmation();
  }

  // A block of the incumbent and what may be better; false when nothing is expected to be.
  template <typename Allowed>
  bool plan_picks(int incumbent, int left, Allowed allowed) {
    std::vector<int> choice, ran, failed;
    for (int c = 0; c < static_cast<int>(candidates.size()); ++c) {
      if (alive(c) && allowed(c)) choice.push_back(c);
    }
    for (const TuneRecord& record : records) {
      (record.outcome == LaunchOutcome::measured ? ran : failed).push_back(record.launch.candidate);
    }
    const std::uint64_t seed = policy.seed + static_cast<std::uint64_t>(block);
    const auto picks = best_picks(surrogate, choice, runs_chances(candidates, ran, failed), incumbent,
                                  std::min(kBlockLaunches, left) - 1, seed);
    if (picks.empty() || picks[0].expected_gain < kGainMin) return false;
    std::vector<int> members = {incumbent};
    for (const Pick& pick : picks) {
      if (pick.expected_gain >= kGainMin / 4) members.push_back(pick.candidate);
    }
    plan_block(members);
    return true;
  }

  // Blocks of the baseline, the fastest and the runner-up, forwards and backwards in turn.
  void plan_confirmation() {
    const bool any_left = std::any_of(finalists.begin(), finalists.end(), [&](int c) { return alive(c); });
    if (any_left) {
      ended = true;
      return;
    }
    finalists.clear();
    std::vector<int> known = launched();
    std::erase(known, 0);
    const Beliefs beliefs = surrogate.beliefs(known);
    std::vector<std::size_t> order(known.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return beliefs.mean[a] < beliefs.mean[b]; });
    for (const std::size_t i : order) finalists.push_back(known[i]);

    Confirmation plan{2, std::min(kConfirmBlocksMin, launches_left() / 2)};  // of the fastest two, without a baseline
    if (alive(0) && !finalists.empty()) {
      plan = plan_for(least_gain(finalists[0]), launches_left());
    }
    finalists.resize(std::min(finalists.size(), static_cast<std::size_t>(plan.finalists)));
    if (plan.blocks < kConfirmBlocksFewest || finalists.size() + (alive(0) ? 1 : 0) < 2) {
      ended = true;
      return;
    }
    std::vector<int> members = finalists;
    if (alive(0)) members.insert(members.begin(), 0);
    for (int b = 0; b < plan.blocks; ++b) {
      append_block(members);
      std::reverse(members.begin(), members.end());
    }
  }

  // ---- what came of it

  void record(const TuneRecord& record) {
    records.push_back(record);
    const int c = record.launch.candidate;
    queue.erase(queue.begin());
    if (record.outcome == LaunchOutcome::measured) {
      observations.push_back({c, record.launch.block, std::log(record.step_s)});
    } else {
      dropped[static_cast<std::size_t>(c)] = fmt::format("{}: {}", launch_outcome_text(record.outcome),
                                                         record.reason.empty() ? "no reason given" : record.reason);
      std::erase_if(queue, [&](const TuneLaunch& launch) { return launch.candidate == c; });
      if (stage == TuneStage::confirm &&
          std::none_of(finalists.begin(), finalists.end(), [&](int f) { return alive(f); })) {
        queue.clear();  // the baseline alone confirms nothing: the next fastest are confirmed
      }
    }
    if (policy.budget.elapsed_s > 0 && elapsed_s() >= policy.budget.elapsed_s) queue.clear();
    if (queue.empty()) plan();
  }

  // Log step times of the confirmation's whole blocks: the baseline's, then those of the finalists that still run.
  std::vector<std::vector<double>> confirmation_blocks(const std::vector<int>& arms) const {
    std::map<int, std::map<int, double>> blocks;
    for (const TuneRecord& record : records) {
      if (record.launch.stage != TuneStage::confirm || record.outcome != LaunchOutcome::measured) continue;
      blocks[record.launch.block][record.launch.candidate] = std::log(record.step_s);
    }
    std::vector<std::vector<double>> whole;
    for (auto& [index, log_s] : blocks) {
      std::vector<double> row;
      for (const int arm : arms) {
        if (log_s.contains(arm)) row.push_back(log_s[arm]);
      }
      if (row.size() == arms.size()) whole.push_back(row);
    }
    return whole;
  }

  // The fastest finalist by all that was measured; of those within a quarter of the tie ratio, the simplest.
  std::optional<int> best_finalist() const {
    std::vector<int> running;
    for (const int c : finalists) {
      if (alive(c)) running.push_back(c);
    }
    if (running.empty()) return std::nullopt;
    const Beliefs beliefs = surrogate.beliefs(running);
    const double fastest = *std::min_element(beliefs.mean.begin(), beliefs.mean.end());
    const auto simplicity = [&](int c) { return std::tuple(at(c).changes, at(c).memory_bytes, c); };
    std::optional<int> best;
    for (std::size_t i = 0; i < running.size(); ++i) {
      if (beliefs.mean[i] - fastest > policy.tie_ratio / 4) continue;
      if (!best || simplicity(running[i]) < simplicity(*best)) best = running[i];
    }
    return best;
  }

  std::optional<double> rank_correlation() const {
    std::vector<std::pair<double, double>> points;
    for (const auto& [c, log_s] : mean_log_times(observations)) {
      if (at(c).predicted_s) points.emplace_back(*at(c).predicted_s, log_s);
    }
    return kendall_tau(points);
  }

  TuneAnswer answer() const;
  std::vector<TuneTrail> trail() const;
  void describe_model(TuneAnswer&) const;
};

std::vector<TuneTrail> Tuner::State::trail() const {
  std::vector<TuneTrail> trail(candidates.size());
  for (const TuneRecord& record : records) ++trail[static_cast<std::size_t>(record.launch.candidate)].launches;
  for (std::size_t c = 0; c < candidates.size(); ++c) trail[c].dropped = dropped[c];
  if (observations.empty()) return trail;

  for (const auto& [c, log_s] : mean_log_times(observations)) {
    trail[static_cast<std::size_t>(c)].measured_s = std::exp(log_s);
  }

  if (!ended) return trail;
  const std::vector<double> means = surrogate.means();
  const std::vector<int> known = launched();
  if (known.empty()) return trail;
  const int best = leader();
  for (int c = 0; c < static_cast<int>(candidates.size()); ++c) {
    const auto i = static_cast<std::size_t>(c);
    if (c == 0 || c == best || !dropped[i].empty()) continue;
    if (std::find(finalists.begin(), finalists.end(), c) != finalists.end()) continue;
    const double slower = std::expm1(means[i] - means[static_cast<std::size_t>(best)]) * 100;
    trail[i].dropped = fmt::format("{}: expected to be {:.1f}% {} than {}",
                                   trail[i].launches == 0 ? "never launched" : "not launched again", std::abs(slower),
                                   slower < 0 ? "faster" : "slower", at(best).name);
  }
  return trail;
}

void Tuner::State::describe_model(TuneAnswer& answer) const {
  answer.rank_correlation = rank_correlation();
  if (!has_model) {
    answer.words.push_back("no cost model covers these candidates: they were raced on measurements alone");
  } else if (!model_trusted()) {
    answer.words.push_back(fmt::format(
        "the cost model is not to be trusted here: measured over predicted varies by {:.0f}% (up to {:.0f}% "
        "is usual), so up to {} launches were allowed instead of {}",
        *model_error_found * 100, kModelErrorMax * 100, kLaunchesWithout, kLaunchesWithModel));
  }
}

TuneAnswer Tuner::State::answer() const {
  TuneAnswer answer;
  describe_model(answer);
  answer.end = TuneEnd::budget;
  if (!ended) {
    answer.words.push_back(fmt::format("stopped in the {} stage, after {} launches: nothing is confirmed",
                                       tune_stage_text(stage), records.size()));
    return answer;
  }
  if (candidates.size() == 1) {
    answer.end = TuneEnd::no_difference_shown;
    answer.words.push_back("there is only the baseline: nothing to compare it with");
    return answer;
  }
  if (launched().empty()) {
    answer.end = records.empty() ? TuneEnd::budget : TuneEnd::nothing_ran;
    answer.words.push_back(fmt::format("no launch of {} measured anything", records.size()));
    return answer;
  }
  answer.finalist = best_finalist();
  if (!alive(0)) {
    answer.end = TuneEnd::no_baseline;
    answer.winner = answer.finalist.value_or(leader());
    answer.words.push_back("the baseline does not run, so there is no gain to speak of: " + dropped[0]);
    return answer;
  }
  if (!answer.finalist) {
    const bool others = std::count_if(dropped.begin(), dropped.end(), [](const auto& why) { return why.empty(); }) > 1;
    answer.end = others ? TuneEnd::budget : TuneEnd::no_difference_shown;
    answer.words.push_back(
        others ? fmt::format("the budget ended before a confirmation; {} was the fastest so far", at(leader()).name)
               : "nothing but the baseline runs");
    return answer;
  }
  const int finalist = *answer.finalist;
  std::vector<int> arms = {0, finalist};
  for (const int other : finalists) {
    if (other != finalist && alive(other)) arms.push_back(other);
  }
  const auto gains = confirmed_gains(confirmation_blocks(arms));
  const ConfirmedGain gain = gains.empty() ? ConfirmedGain{} : gains[0];
  if (gain.blocks < kConfirmBlocksFewest) {
    answer.words.push_back(
        fmt::format("the budget ended before a confirmation; {} was the fastest so far", at(finalist).name));
    return answer;
  }
  answer.gain_ratio = gain.gain_ratio;
  answer.gain_low = gain.gain_low;
  answer.gain_high = gain.gain_high;
  const bool worth = gain.gain_ratio > 1 + policy.tie_ratio / 2;
  if (gain.shown && worth) {
    answer.end = TuneEnd::confirmed;
    answer.winner = finalist;
    for (const int other : finalists) {
      const Beliefs beliefs = surrogate.beliefs({finalist, other});
      if (other == finalist || std::abs(beliefs.mean[0] - beliefs.mean[1]) > policy.tie_ratio / 4) continue;
      answer.words.push_back(
          fmt::format("tie with {}: the simpler one is taken (fewer changes, then less memory)", at(other).name));
    }
    return answer;
  }
  answer.end = surrogate.noise_sd() > kNoiseMax && !gain.shown ? TuneEnd::too_noisy : TuneEnd::no_difference_shown;
  if (answer.end == TuneEnd::too_noisy) {
    answer.words.push_back(
        fmt::format("launches of the same candidate vary by {:.0f}%: {} may be faster, but nothing is shown",
                    surrogate.noise_sd() * 100, at(finalist).name));
  } else if (gain.shown) {
    answer.words.push_back(
        fmt::format("tie within {:.1f}%: kept the baseline; {} is faster by {:.1f}%, which is not worth it",
                    policy.tie_ratio * 50, at(finalist).name, (gain.gain_ratio - 1) * 100));
  } else {
    answer.words.push_back(
        fmt::format("kept the baseline: {} was the fastest other, at {:.3f} times its speed [{:.3f}, {:.3f}]",
                    at(finalist).name, gain.gain_ratio, gain.gain_low, gain.gain_high));
  }
  return answer;
}

Tuner::Tuner(std::vector<TuneCandidate> candidates, const TunePolicy& policy) {
  if (candidates.empty()) {
    throw Error(ErrorKind::config, "there are no candidates to tune", "leave at least the baseline in the space");
  }
  for (const TuneCandidate& candidate : candidates) {
    if (candidate.predicted_s && !(*candidate.predicted_s > 0 && std::isfinite(*candidate.predicted_s))) {
      throw Error(ErrorKind::internal,
                  fmt::format("candidate '{}' is predicted to take {} s", candidate.name, *candidate.predicted_s),
                  "leave its prediction out");
    }
  }
  state_ = std::make_unique<State>(std::move(candidates), policy);
}

Tuner::~Tuner() = default;
Tuner::Tuner(Tuner&&) noexcept = default;

std::optional<TuneLaunch> Tuner::next() const {
  if (state_->queue.empty()) return std::nullopt;
  return state_->queue.front();
}

void Tuner::record(const TuneRecord& record) {
  const std::optional<TuneLaunch> asked = next();
  const TuneLaunch& launch = record.launch;
  const auto text = [](const TuneLaunch& of) {
    return fmt::format("candidate {} in block {} ({}, seed {})", of.candidate, of.block, tune_stage_text(of.stage),
                       of.seed);
  };
  if (!asked || launch.candidate != asked->candidate || launch.block != asked->block || launch.stage != asked->stage ||
      launch.seed != asked->seed) {
    throw Error(ErrorKind::config,
                fmt::format("a record of {} where {} is due", text(launch), asked ? text(*asked) : "nothing"),
                "resume with the space, budget, seed and version that the journal was begun with");
  }
  if (record.outcome == LaunchOutcome::measured && !(record.step_s > 0 && std::isfinite(record.step_s))) {
    throw Error(ErrorKind::internal, fmt::format("a measured step of {} s", record.step_s), "record it as failed");
  }
  state_->record(record);
}

TuneAnswer Tuner::answer() const {
  return state_->answer();
}

std::vector<TuneTrail> Tuner::trail() const {
  return state_->trail();
}

int Tuner::expected_launches() const {
  return state_->ended ? 0 : state_->launches_left();
}

int Tuner::most_launches() const {
  if (state_->ended) return 0;
  const int most = state_->policy.budget.launches > 0 ? std::min(state_->policy.budget.launches, kLaunchesWithout)
                                                      : kLaunchesWithout;
  return most - static_cast<int>(state_->records.size());
}

}  // namespace mrb
