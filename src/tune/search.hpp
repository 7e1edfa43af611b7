// Which candidates the next block of the search should launch.
#pragma once

#include <cstdint>
#include <vector>

#include "tune/surrogate.hpp"

namespace mrb {

// The first block: the baseline, the best predicted of each family, so that no kernel or transport is judged by a model
// alone, and then the best predicted of all. Without predictions, those with fewest changes.
std::vector<int> opening_block(const std::vector<TuneCandidate>&, int size);

struct Pick {
  int candidate = 0;
  double expected_gain = 0;  // in log time; what it is expected to be better by than the incumbent, losses counted as 0
};

// Up to `count` of the candidates, best first, by expected improvement over the incumbent (Jones, Schonlau and Welch,
// Journal of Global Optimization 13, 1998), times the chance that it runs at all. Each pick takes into account that those
// before it will have been launched. A launched candidate may be picked again. `seed` decides between equals.
std::vector<Pick> best_picks(const Surrogate&, const std::vector<int>& candidates,
                             const std::vector<double>& runs_chance, int incumbent, int count, std::uint64_t seed);

// For each candidate the chance that it runs. What fails is mostly two settings together, or one: the pairs of levels
// (or single levels) that most failures have in common and that nothing had which ran are the suspects; when several
// are equally suspect, each is as likely as the others; what they do not explain is looked at again without it. A cause
// is the surer the more failures it explains: half sure of one, three quarters of two. 1 while none has failed.
std::vector<double> runs_chances(const std::vector<TuneCandidate>&, const std::vector<int>& ran,
                                 const std::vector<int>& failed);

// In how many axes two candidates differ, of those that apply to both (a level below zero: the axis does not apply).
int moves_apart(const TuneCandidate&, const TuneCandidate&);

}  // namespace mrb
