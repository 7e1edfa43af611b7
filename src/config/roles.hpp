// Which ranks generate and which train.
#pragma once

#include "config/config.hpp"

namespace mrb {

// Ranks 0 to train_ranks - 1 train, and so does every rank when the sides are not apart. Those that generate follow, in
// groups of rollout_expert_parallel ranks, each of which holds one copy of all experts.
struct Roles {
  bool apart = false;  // no rank does both
  int train_ranks = 1;
  int rollout_ranks = 1;
  int rollout_expert_parallel = 1;

  bool trains(int rank) const { return rank < train_ranks; }
  int rollout_rank(int rank) const { return apart ? rank - train_ranks : rank; }
};

// The configuration is checked before (rules.hpp); rollout_ranks is 0 where the ratio does not divide the ranks.
Roles roles_of(const Config&);

// Updates that the weights behind an answer's first token are behind those that train on it: the most there may be.
int staleness_max(const ScheduleConfig&);

// "3:1" to 3 and 1; {0, 0} when it is no ratio of two whole numbers from 1 to 4096.
struct Ratio {
  int rollout = 0;
  int train = 0;
};
Ratio parse_ratio(const std::string&);

}  // namespace mrb
