// Which cluster, split and settings: every combination is priced by the closed form, those that do not fit are counted
// with their reason.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/calibration.hpp"
#include "planner/memory.hpp"
#include "planner/rollout.hpp"
#include "planner/schedule_cost.hpp"
#include "planner/train_step.hpp"

namespace mrb {

// One step of GRPO.
struct Workload {
  ModelShape model;
  int prompts = 64;
  int group_size = 16;
  double prompt_tokens = 512;
  LengthDistribution lengths;
  int forward_passes = 1;  // log-probabilities: of the old policy, and of a reference
  double imbalance = 1.2;  // rows of the busiest expert rank over the mean

  int answers() const { return prompts * group_size; }
};

struct TrainChoice {
  Parallelism split;
  std::string backend;
  double micro_sequences = 1;
  Recompute recompute = Recompute::none;
};

// A point of the search: whole nodes of one type. Colocated: both sides are all of them.
struct PlanPoint {
  const Instance* instance = nullptr;
  int nodes = 1;
  int rollout_nodes = 1;
  int train_nodes = 1;
  Schedule schedule = Schedule::colocated;
  int staleness = 0;  // async
  int engine_gpus = 1;
  TrainChoice train;
};

// All modelled.
struct StepCost {
  PhaseTimes phases;
  double forward_s = 0;  // log-probabilities, part of phases.train_s
  RolloutCost rollout;
  TrainMemory memory;
  double step_s = 0;
  double trained_tokens = 0;  // of a step: prompts and answers
  double usd_per_hour = 0;    // of all nodes; 0: no price

  double tokens_per_s() const { return trained_tokens / step_s; }
  double usd_per_million_tokens() const { return usd_per_hour / 3600 * step_s / trained_tokens * 1e6; }
};

struct Candidate {
  PlanPoint point;
  StepCost cost;
};

// Prices points of one workload; what does not change from point to point is worked out once. Keeps references.
class StepModel {
 public:
  StepModel(const Workload&, const Calibration&);

  // Nothing, and a reason counted in `refused`, when it does not fit: `refused` may be null.
  using Refusals = std::map<std::string, std::int64_t>;
  std::optional<StepCost> cost(const PlanPoint&, Refusals* refused) const;

  // One side alone. A side that shares its GPUs with the other leaves kSleepingGbyte to it.
  struct TrainSide {
    double seconds = 0;
    double forward_s = 0;
    TrainMemory memory;
  };
  std::optional<TrainSide> train_side(const Instance&, const TrainChoice&, bool is_shared, Refusals*) const;
  std::optional<RolloutCost> rollout_side(const Instance&, int gpus, int engine_gpus, bool is_shared, Refusals*) const;
  StepCost compose(const PlanPoint&, const TrainSide&, const RolloutCost&) const;

  const Workload& workload() const { return workload_; }
  const Calibration& calibration() const { return calibration_; }

 private:
  const Workload& workload_;
  const Calibration& calibration_;
  LengthProfile lengths_;
  double sync_s_;
};

struct SearchSpace {
  std::vector<Instance> instances;
  std::vector<int> nodes;
  std::vector<Schedule> schedules;
  std::vector<int> stalenesses;
  std::vector<std::string> backends;
  std::vector<double> micro_sequences;
  std::vector<int> tensors = {1, 2, 4, 8};  // within a node
  std::vector<int> pipelines = {1, 2, 4, 8, 16};
  std::vector<int> experts = {1, 2, 4, 8, 16, 32, 64, 128};
};

struct SearchResult {
  std::vector<Candidate> candidates;  // the fastest of each instance, nodes, schedule and staleness
  StepModel::Refusals refused;
  std::int64_t priced = 0;  // sides and steps that were worked out
};

// The times of the two sides do not depend on each other, and a step is never faster when a side is slower: so the best
// of each side, for each number of its nodes, is found first. Candidates point to the instances of the space, which must
// outlive them.
SearchResult search(const SearchSpace&, const StepModel&);
SearchResult search(SearchSpace&&, const StepModel&) = delete;

// The best way to train on so many nodes, among `backends` and `micro_sequences` of the space.
std::optional<std::pair<TrainChoice, StepModel::TrainSide>> best_training(const SearchSpace&, const StepModel&,
                                                                          const Instance&, int nodes, bool is_shared,
                                                                          SearchResult&);

// The size of engine that generates a batch soonest on so many nodes.
std::optional<std::pair<int, RolloutCost>> best_rollout(const StepModel&, const Instance&, int nodes, bool is_shared,
                                                        SearchResult&);

}  // namespace mrb
