#include "tune/search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <set>
#include <tuple>

#include "base/random.hpp"

namespace mrb {

namespace {

// Beliefs about thousands are not worth their time: those with the best means, and some others at random.
// Beliefs rest on sizes of terms that are themselves only estimated, and are less sure than they say.
constexpr double kDoubt = 1.5;
constexpr std::size_t kShortlistBest = 240, kShortlistOther = 80;

// Two axes (or one, twice), and a level of each.
using Corner = std::array<int, 4>;

// Of max(0, -difference), for a difference that is normal.
double expected_improvement(double mean, double variance) {
  const double sd = std::sqrt(std::max(variance, 0.0));
  if (sd < 1e-9) return std::max(-mean, 0.0);
  const double z = -mean / sd;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return std::max(sd * (density + z * std::erfc(-z / std::numbers::sqrt2) / 2), 0.0);
}

}  // namespace

int moves_apart(const TuneCandidate& a, const TuneCandidate& b) {
  int moves = 0;
  for (std::size_t axis = 0; axis < std::min(a.levels.size(), b.levels.size()); ++axis) {
    moves += a.levels[axis] >= 0 && b.levels[axis] >= 0 && a.levels[axis] != b.levels[axis] ? 1 : 0;
  }
  return moves;
}

std::vector<int> opening_block(const std::vector<TuneCandidate>& candidates, int size) {
  std::vector<int> order(candidates.size());
  std::iota(order.begin(), order.end(), 0);
  const auto rank = [&](int c) {
    const TuneCandidate& candidate = candidates[static_cast<std::size_t>(c)];
    return std::tuple(candidate.predicted_s.value_or(INFINITY), candidate.changes, c);
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) < rank(b); });

  std::vector<int> block = {0};
  std::set<std::string> families = {candidates[0].family};
  const auto add = [&](int c) {
    if (static_cast<int>(block.size()) < size && std::find(block.begin(), block.end(), c) == block.end()) {
      block.push_back(c);
    }
  };
  for (const int c : order) {
    if (families.insert(candidates[static_cast<std::size_t>(c)].family).second) add(c);
  }
  for (const int c : order) add(c);
  return block;
}

std::vector<double> runs_chances(const std::vector<TuneCandidate>& candidates, const std::vector<int>& ran,
                                 const std::vector<int>& failed) {
  std::vector<double> chances(candidates.size(), 1);
  const auto corners_of = [&](int c) {
    const std::vector<int>& levels = candidates[static_cast<std::size_t>(c)].levels;
    std::vector<Corner> corners;
    for (std::size_t a = 0; a < levels.size(); ++a) {
      for (std::size_t b = 0; b <= a; ++b) {
        corners.push_back({static_cast<int>(a), static_cast<int>(b), levels[a], levels[b]});
      }
    }
    return corners;
  };
  std::set<Corner> innocent;
  for (const int c : ran) {
    for (const Corner& corner : corners_of(c)) innocent.insert(corner);
  }
  for (std::vector<int> unexplained = failed; !unexplained.empty();) {
    std::map<Corner, int> blame;
    for (const int c : unexplained) {
      for (const Corner& corner : corners_of(c)) {
        if (!innocent.contains(corner)) ++blame[corner];
      }
    }
    int most = 0;
    for (const auto& [corner, failures] : blame) most = std::max(most, failures);
    if (most == 0) break;  // by more than two settings together
    std::erase_if(blame, [&](const auto& of) { return of.second < most; });
    const auto suspects_in = [&](int c) {
      const std::vector<Corner> corners = corners_of(c);
      return std::count_if(corners.begin(), corners.end(),
                           [&](const Corner& corner) { return blame.contains(corner); });
    };
    const double sure = 1 - std::ldexp(1.0, -most);
    for (std::size_t c = 0; c < candidates.size(); ++c) {
      const double share = static_cast<double>(suspects_in(static_cast<int>(c))) / static_cast<double>(blame.size());
      chances[c] *= 1 - sure * share;
    }
    std::erase_if(unexplained, [&](int c) { return suspects_in(c) > 0; });
  }
  return chances;
}

std::vector<Pick> best_picks(const Surrogate& surrogate, const std::vector<int>& candidates,
                             const std::vector<double>& runs_chance, int incumbent, int count, std::uint64_t seed) {
  Random random({seed, Random::order});
  std::vector<int> shortlist;
  for (const int c : candidates) {
    if (c != incumbent) shortlist.push_back(c);
  }
  if (shortlist.size() > kShortlistBest + kShortlistOther) {
    const std::vector<double> means = surrogate.means();
    std::sort(shortlist.begin(), shortlist.end(), [&](int a, int b) {
      return std::pair(means[static_cast<std::size_t>(a)], a) < std::pair(means[static_cast<std::size_t>(b)], b);
    });
    for (std::size_t i = kShortlistBest; i < kShortlistBest + kShortlistOther; ++i) {
      std::swap(shortlist[i], shortlist[i + random.below(shortlist.size() - i)]);
    }
    shortlist.resize(kShortlistBest + kShortlistOther);
  }
  for (std::size_t i = shortlist.size(); i > 1; --i) std::swap(shortlist[i - 1], shortlist[random.below(i)]);
  shortlist.push_back(incumbent);

  Beliefs beliefs = surrogate.beliefs(shortlist);
  const std::size_t last = shortlist.size() - 1;
  beliefs.condition_on(static_cast<int>(last));  // the incumbent is in every block
  const auto looks = surrogate.second_looks();
  std::vector<bool> taken(shortlist.size());
  std::vector<Pick> picks;
  while (static_cast<int>(picks.size()) < count && picks.size() < last) {
    Pick best{-1, 0};
    std::size_t position = 0;
    for (std::size_t i = 0; i < last; ++i) {
      if (taken[i]) continue;
      const double variance = kDoubt * (beliefs.variance[i] + beliefs.variance[last] -
                                        2 * beliefs.covariance(static_cast<int>(i), static_cast<int>(last)));
      double gain = expected_improvement(beliefs.mean[i] - beliefs.mean[last], variance);
      if (const auto& look = looks[static_cast<std::size_t>(shortlist[i])]) {
        gain += look->straggler_chance * expected_improvement(look->mean - beliefs.mean[last], look->variance);
      }
      gain *= runs_chance[static_cast<std::size_t>(shortlist[i])];
      // What differs by rounding alone is equal, so that a replay on another machine picks the same.
      if (best.candidate < 0 || gain > best.expected_gain * (1 + 1e-9)) best = {shortlist[i], gain}, position = i;
    }
    taken[position] = true;
    beliefs.condition_on(static_cast<int>(position));
    picks.push_back(best);
  }
  return picks;
}

}  // namespace mrb
