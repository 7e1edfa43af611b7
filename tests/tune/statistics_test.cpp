// The parts of the tuner that are pure functions of numbers.
#include <cmath>
#include <numeric>

#include "base/random.hpp"
#include "support/catch.hpp"
#include "tune/confirmation.hpp"
#include "tune/elimination.hpp"
#include "tune/measured.hpp"
#include "tune/search.hpp"
#include "tune/smoothing.hpp"
#include "tune/surrogate.hpp"

using namespace mrb;
using test::Approx;

namespace {

// A full space of three axes with 6, 5 and 4 levels.
std::vector<TuneCandidate> grid() {
  std::vector<TuneCandidate> candidates;
  for (int a = 0; a < 6; ++a) {
    for (int b = 0; b < 5; ++b) {
      for (int c = 0; c < 4; ++c) {
        TuneCandidate candidate;
        candidate.levels = {a, b, c};
        candidate.family = std::to_string(a);
        candidates.push_back(candidate);
      }
    }
  }
  return candidates;
}

double additive(const TuneCandidate& candidate) {
  return 0.3 * candidate.levels[0] - 0.2 * candidate.levels[1] + (candidate.levels[2] == 2 ? 0.5 : 0);
}

// Root mean square of what the smooth predictions miss `truth` by, both less their means.
template <typename Truth>
double error_of(const std::vector<TuneCandidate>& candidates, Truth truth) {
  const std::vector<double> smooth = smooth_log_predictions(candidates);
  double mean = 0, squares = 0;
  for (std::size_t c = 0; c < smooth.size(); ++c) {
    mean += (smooth[c] - truth(candidates[c])) / static_cast<double>(smooth.size());
  }
  for (std::size_t c = 0; c < smooth.size(); ++c) {
    const double off = smooth[c] - truth(candidates[c]) - mean;
    squares += off * off / static_cast<double>(smooth.size());
  }
  return std::sqrt(squares);
}

}  // namespace

TEST_CASE("predictions whose errors are their own are smoothed towards what the axes do", "[tune]") {
  std::vector<TuneCandidate> candidates = grid();
  Random random({1, Random::routing});
  for (TuneCandidate& candidate : candidates) candidate.predicted_s = std::exp(additive(candidate));
  CHECK(error_of(candidates, additive) < 1e-3);  // nothing to smooth

  for (TuneCandidate& candidate : candidates)
    candidate.predicted_s = std::exp(additive(candidate) + 0.15 * random.normal());
  CHECK(error_of(candidates, additive) < 0.075);  // half of the error is gone, of 120 points

  for (TuneCandidate& candidate : candidates) candidate.predicted_s = std::exp(0.15 * random.normal());
  CHECK(error_of(candidates, [](const TuneCandidate&) { return 0.0; }) < 0.05);  // there is no effect, and none is seen
}

TEST_CASE("drift that a block shares does not change who is ahead", "[tune]") {
  std::vector<TuneCandidate> candidates = grid();
  // Candidate 50 is 10% faster than 10, but was only launched when everything took 1.4 times as long.
  std::vector<Observation> seen;
  for (const int block : {0, 1, 2}) {
    const double slow = block == 2 ? std::log(1.4) : 0;
    for (const int c : {10, 70, 100}) seen.push_back({c, block, slow + (c == 10 ? 0 : 0.02 * c / 10) + 0.002 * block});
  }
  seen.push_back({50, 2, std::log(1.4) - 0.1});
  Surrogate surrogate(candidates);
  surrogate.fit(seen);
  const Beliefs beliefs = surrogate.beliefs({10, 50});
  CHECK(beliefs.mean[1] < beliefs.mean[0] - 0.05);
}

TEST_CASE("what was slow wherever it was launched is believed slow where it was not", "[tune]") {
  std::vector<TuneCandidate> candidates = grid();
  std::vector<Observation> seen;
  Random random({2, Random::order});
  for (int i = 0; i < 30; ++i) {
    const int c = static_cast<int>(random.below(120));
    seen.push_back({c, i / 6, candidates[static_cast<std::size_t>(c)].levels[0] == 3 ? 0.5 : 0.0});
  }
  Surrogate surrogate(candidates);
  surrogate.fit(seen);
  const std::vector<double> means = surrogate.means();
  double slow = 0, fast = 0;  // means over all of the level, and over all others
  for (std::size_t c = 0; c < means.size(); ++c) (candidates[c].levels[0] == 3 ? slow : fast) += means[c];
  CHECK(slow / 20 - fast / 100 > 0.3);
}

TEST_CASE("a launch to come takes away the variance that normal theory says", "[tune]") {
  Surrogate surrogate(grid());
  surrogate.fit(std::vector<Observation>{{0, 0, 0.0}, {40, 0, 0.1}, {0, 1, 0.02}, {80, 1, 0.3}});
  Beliefs beliefs = surrogate.beliefs({0, 41, 90});
  const double variance = beliefs.variance[2], shared = beliefs.covariance(1, 2);
  const double left = variance - shared * shared / (beliefs.variance[1] + beliefs.noise_variance);
  beliefs.condition_on(1);
  CHECK(beliefs.variance[2] == Approx(left).epsilon(1e-9));
  CHECK(beliefs.covariance(2, 2) == Approx(left).epsilon(1e-9));
}

TEST_CASE("what is eliminated is slower in the same blocks, by a t test", "[tune]") {
  // Differences to candidate 1: of 2, 0.10 and 0.12; of 3, 0.01 and -0.01; of 4, 0.30 once; of the baseline, 0.5 twice.
  // Pooled: squares 0.0002 + 0.0002 + 0, three degrees of freedom, sd 0.011547; t of 2 = 0.11 / 0.011547 x sqrt(2) = 13.47,
  // of 4 = 25.98. A t of 13.47 with three degrees has p = 0.00044, above 0.05 / 10 / 3 = 0.0017 only before Holm's first.
  const std::vector<Observation> seen = {{0, 0, 1.5}, {1, 0, 1.0}, {2, 0, 1.10}, {3, 0, 1.01}, {4, 0, 1.30},
                                         {0, 1, 2.5}, {1, 1, 2.0}, {2, 1, 2.12}, {3, 1, 1.99}};
  const auto shown = eliminate(seen, 1, 0.05, 10);
  REQUIRE(shown.size() == 2);
  CHECK(shown[0].candidate == 2);
  CHECK(shown[0].blocks == 2);
  CHECK(shown[0].slower_ratio == Approx(std::exp(0.11)));
  CHECK(shown[0].p_value == Approx(0.00044).epsilon(0.02));
  CHECK(shown[1].candidate == 4);

  const std::vector<Observation> first_block(seen.begin(), seen.begin() + 5);
  CHECK(eliminate(first_block, 1, 0.05, 10).empty());  // nothing is known of the spread
}

TEST_CASE("the confirmed gain of one finalist is that of a paired t test", "[tune]") {
  // Differences 0.10, 0.12, 0.08: mean 0.1, sd 0.02, standard error 0.011547; t(2, 97.5%) = 4.3027, so +- 0.049683.
  const auto gains = confirmed_gains({{1.10, 1.0}, {2.12, 2.0}, {1.58, 1.5}});
  REQUIRE(gains.size() == 1);
  CHECK(gains[0].gain_ratio == Approx(std::exp(0.1)));
  CHECK(gains[0].gain_low == Approx(std::exp(0.1 - 0.049683)).epsilon(1e-4));
  CHECK(gains[0].gain_high == Approx(std::exp(0.1 + 0.049683)).epsilon(1e-4));
  CHECK(gains[0].p_value == Approx(0.00655).epsilon(0.01));  // t = 8.660 with two degrees of freedom
  CHECK(gains[0].shown);
}

TEST_CASE("a confirmation of one block, or of no difference, shows nothing", "[tune]") {
  CHECK(confirmed_gains({}).empty());
  CHECK_FALSE(confirmed_gains({{2.0, 1.0, 1.5}})[0].shown);
  CHECK(confirmed_gains({{2.0, 1.0, 1.5}})[0].gain_low == 0);
  CHECK_FALSE(confirmed_gains({{1.0, 1.0}, {1.0, 1.0}})[0].shown);
}

TEST_CASE("the smaller the gain, the more blocks it takes to show, up to what there is", "[tune]") {
  // Gain 3%, pairs' sd 1.2% x 1.414: at 9 blocks t(8, 99%) = 2.896, and 0.03 x 3 = 0.09 >= (2.896 + 0.84) x 0.01697
  // = 0.0634; at 6, t(5, 99%) = 3.365, 0.0735 >= 0.0714; at 5, t(4, 99%) = 3.747, 0.0671 < 0.0778.
  CHECK(blocks_to_show(0.03, 0.012, 1, 3, 12) == 6);
  CHECK(blocks_to_show(0.5, 0.012, 1, 3, 12) == 3);
  CHECK(blocks_to_show(0.001, 0.012, 1, 3, 12) == 12);
}

TEST_CASE("the first block has the baseline, every family, and then the best predicted", "[tune]") {
  std::vector<TuneCandidate> candidates = grid();
  for (std::size_t c = 0; c < candidates.size(); ++c) candidates[c].predicted_s = 1 + 0.01 * static_cast<double>(c);
  // Families are the level of the first axis, twenty candidates each; the best of each is its first.
  CHECK(opening_block(candidates, 9) == std::vector<int>{0, 20, 40, 60, 80, 100, 1, 2, 3});
  CHECK(opening_block(candidates, 2) == std::vector<int>{0, 20});
}

TEST_CASE("two settings that failed together are believed to fail again", "[tune]") {
  const std::vector<TuneCandidate> candidates = grid();
  const auto index = [](int a, int b, int c) { return 20 * a + 4 * b + c; };
  const auto chances =
      runs_chances(candidates, {index(1, 1, 0), index(2, 2, 1), index(1, 0, 3)}, {index(1, 2, 0), index(1, 2, 3)});
  const auto chance = [&](int a, int b, int c) { return chances[static_cast<std::size_t>(index(a, b, c))]; };
  // Levels 1 and 2 of the first two axes are in both failures and in nothing that ran: the only suspects, two failures.
  CHECK(chance(1, 2, 2) == Approx(0.25));
  CHECK(chance(2, 2, 0) == 1);
  CHECK(chance(4, 4, 2) == 1);
}

TEST_CASE("of several causes of one failure each is as likely", "[tune]") {
  const std::vector<TuneCandidate> candidates = grid();
  const auto chances = runs_chances(candidates, {}, {0});  // three levels and three pairs of them, half sure
  CHECK(chances[0] == Approx(0.5));
  CHECK(chances[1] == Approx(1 - 0.5 * 3 / 6));  // all but the third axis' level and its two pairs
  CHECK(chances[25] == Approx(1));               // none
}

TEST_CASE("what a block adds to all its launches is not held against who was in it", "[tune]") {
  // Candidates 1, 2 and 3 take 1.0, 1.2 and 1.5 in log time; block 0 adds -0.1 and block 1 adds 0.1.
  const auto means = mean_log_times(std::vector<Observation>{{1, 0, 0.9}, {2, 0, 1.1}, {1, 1, 1.1}, {3, 1, 1.6}});
  CHECK(means.at(1) == Approx(1.0));
  CHECK(means.at(2) == Approx(1.2));
  CHECK(means.at(3) == Approx(1.5));
}

TEST_CASE("Kendall's tau counts the pairs that agree, less those that do not", "[tune]") {
  using Points = std::vector<std::pair<double, double>>;
  CHECK(kendall_tau(Points{{1, 10}, {2, 20}, {3, 30}, {4, 40}}) == 1);
  CHECK(*kendall_tau(Points{{1, 10}, {2, 20}, {3, 40}, {4, 30}}) == Approx(4.0 / 6));  // five agree, one does not
  CHECK_FALSE(kendall_tau(Points{{1, 1}, {2, 2}, {3, 3}}));
}
