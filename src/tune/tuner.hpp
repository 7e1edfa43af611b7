// Which launch comes next, and what the launches so far have shown: the tuner as a pure state machine.
//
// It never starts anything: a caller asks next(), launches that, and tells what came of it with record(). The same
// candidates, policy and records always lead to the same next launch, so resuming is recording a journal again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mrb {

// One configuration of the space, as far as the search needs to know it.
struct TuneCandidate {
  std::string name;                   // the axes' values, as a reader knows them
  std::string family;                 // dispatch kernel x transport: each keeps a representative after screening
  std::vector<int> levels;            // one per axis: which of the axis' values; local moves change one of them
  std::optional<double> predicted_s;  // modelled seconds of a step; none when no model covers it
  int changes = 0;                    // settings that differ from the baseline's: fewer is simpler
  double memory_bytes = 0;            // modelled, of the rank with most; less is simpler
  std::string hash;                   // of its whole configuration, by which a journal knows it again
};

enum class TuneStage { race, local, confirm };
std::string_view tune_stage_text(TuneStage);

struct TuneLaunch {
  int candidate = 0;
  TuneStage stage = TuneStage::race;
  int block = 0;           // launches of one block share drift and seed, and are compared with each other
  std::uint64_t seed = 0;  // of the workload: prompts, lengths, routing
};

enum class LaunchOutcome { measured, wrong_result, failed, hung };
std::string_view launch_outcome_text(LaunchOutcome);

struct TuneRecord {
  TuneLaunch launch;
  LaunchOutcome outcome = LaunchOutcome::measured;
  double step_s = 0;     // measured; of the slowest rank
  double elapsed_s = 0;  // what the launch took of the budget
  std::string reason;    // of an outcome that is not `measured`
};

struct TuneBudget {
  int launches = 0;      // 0: no limit
  double elapsed_s = 0;  // 0: no limit
};

struct TunePolicy {
  TuneBudget budget;
  double tie_ratio = 0.02;  // a gain below half of this is not taken; finalists closer than a quarter are a tie
  std::uint64_t seed = 1;   // of the order within blocks and of the workloads
  bool local_moves = true;  // off only to see what they are worth
};

enum class TuneEnd {
  confirmed,            // the winner is faster than the baseline
  no_difference_shown,  // nothing was shown to be, and the baseline stays
  too_noisy,            // launches vary so much that nothing could be shown
  budget,               // it ended before the confirmation; the winner is the baseline
  no_baseline,          // the baseline does not run; the winner is the fastest of what does
  nothing_ran
};
std::string_view tune_end_text(TuneEnd);

struct TuneAnswer {
  TuneEnd end = TuneEnd::nothing_ran;
  int winner = 0;               // the baseline when nothing better was shown
  std::optional<int> finalist;  // the fastest in the confirmation, which the gain is of, also when the baseline stays
  double gain_ratio = 1;        // baseline's step time over the finalist's, from the confirmation alone
  double gain_low = 0;          // 95% interval
  double gain_high = 0;
  std::optional<double> rank_correlation;  // Kendall's tau of predicted and measured; none for fewer than four points
  std::vector<std::string> words;  // what a reader must know: ties, a model not to be trusted, a budget that ended
};

// What became of one candidate.
struct TuneTrail {
  int launches = 0;
  std::optional<double> measured_s;  // mean of its launches, adjusted for the blocks that they were in
  std::string dropped;               // why it is no longer in the race; empty: it is
};

class Tuner {
 public:
  // Candidate 0 is the baseline. It is in the first block and in all of the confirmation; every block between holds the
  // incumbent, the fastest so far. Throws Error(config) without candidates.
  Tuner(std::vector<TuneCandidate>, const TunePolicy&);
  ~Tuner();
  Tuner(Tuner&&) noexcept;

  // The same until it is recorded; nothing once the answer stands.
  std::optional<TuneLaunch> next() const;
  // Throws Error(config) when this is not the launch that next() asks for: a journal of another space or version.
  void record(const TuneRecord&);

  TuneAnswer answer() const;
  std::vector<TuneTrail> trail() const;  // one per candidate
  // What is likely and at most needed from here, for the cost shown before the start.
  int expected_launches() const;
  int most_launches() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mrb
