// What the launches so far say about every candidate, launched or not: a Gaussian process over log step times.
//
//   log step_s  =  level + slope x log predicted_s   the cost model, as far as the launches bear it out
//                + structure(levels)                 candidates that share levels of axes resemble each other
//                + own(candidate)                    what neither of these explains
//                + block + noise                     drift and seed that a block shares, and a launch's own noise
//
// Each term is normal; their sizes, and how much each axis matters, are those that make the observations most likely
// (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2.2 and 5.4.1). As a block has a term of its own,
// what remains are the differences inside blocks: this is the paired comparison of a race, over all candidates at once.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tune/tuner.hpp"

namespace mrb {

struct Observation {
  int candidate = 0;
  int block = 0;
  double log_s = 0;
};

// The joint belief about some candidates' true log step times. Valid until its surrogate is fitted again.
class Beliefs {
 public:
  std::vector<int> candidates;
  std::vector<double> mean;
  std::vector<double> variance;
  double noise_variance = 0;  // of one launch

  double covariance(int i, int j) const;  // of positions in `candidates`
  // What one more launch of position `i` will leave of the variances, whatever it measures.
  void condition_on(int i);

 private:
  friend class Surrogate;
  const class Surrogate* surrogate_ = nullptr;
  std::vector<double> explained_;  // [observation][position]: whitened covariances, whose products leave the prior's
};

class Surrogate {
 public:
  explicit Surrogate(const std::vector<TuneCandidate>&);

  // Chooses the sizes of the terms, starting from the last fit's, and conditions on the observations (at least one).
  void fit(std::span<const Observation>);

  std::vector<double> means() const;  // of every candidate
  Beliefs beliefs(std::vector<int> candidates) const;
  // Of a candidate that was launched once: what would be believed of it without that launch, and the chance that the
  // launch was a straggler, which says nothing (kStragglerShare of all are, up to kStragglerMost slower). None for any other.
  struct SecondLook {
    double mean = 0, variance = 0;
    double straggler_chance = 0;
  };
  std::vector<std::optional<SecondLook>> second_looks() const;  // [candidate]
  double noise_sd() const;                                      // of the logarithm of one launch's time
  // How alike two candidates are by their levels alone, from 0 to 1 (the same levels).
  double likeness(int a, int b) const;

 private:
  friend class Beliefs;

  // All in logarithms, in which they are searched; `axis_` are the log-odds of how much an axis' change matters.
  struct Sizes {
    double structure, own, noise, block;
    std::vector<double> axis;
  };

  double prior_mean(int candidate) const;
  double prior_covariance(int a, int b) const;
  void take(const Sizes&);
  bool factorize();  // of the observations' covariance, into upper_
  double log_likelihood(const Sizes&);
  double level_distance(std::size_t axis, int a, int b) const;

  int axis_count_ = 0;
  std::vector<float> place_;    // [candidate][axis]: where on its axis, from 0 to 1
  std::vector<double> smooth_;  // [candidate]: of log predictions, what axes explain, less the mean of all
  std::vector<double> rough_;   // [candidate]: what they do not; 0 without a prediction
  Sizes sizes_;
  double structure_variance_ = 0, own_variance_ = 0, noise_variance_ = 0, block_variance_ = 0;
  std::vector<float> axis_weight_;
  std::vector<Observation> observations_;
  std::vector<float> distance_;   // [observation][observation < it][axis]
  std::vector<double> residual_;  // what the prior mean leaves
  std::vector<double> upper_;     // [n][n]: U of U'U = covariance of the observations
  std::vector<double> weight_;    // covariance^-1 x residual
  double level_ = 0;
};

}  // namespace mrb
