// What flows from a plan to a report: experiments, their launches, their steps, their results.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "stats/comparison.hpp"
#include "stats/summary.hpp"

namespace mrb {

// One point of the configuration, every field decided.
struct Experiment {
  std::string id;            // stable: a hash of what is computed, how, and on how many ranks
  std::string workload_id;   // equal for experiments that do the same work
  std::string label;         // the method fields that vary: "rank_dedup libfabric/shm"
  bool is_baseline = false;  // of its workload
  Config config;
};

struct SkippedExperiment {
  Experiment experiment;
  std::string reason;  // with the values
};

struct Plan {
  std::vector<Experiment> experiments;
  std::vector<SkippedExperiment> skipped;
  // Indices into experiments, block after block. Each block holds every experiment twice, in a seeded order and then
  // in its mirror image (A B B A), so that drift over a block hits all alike.
  std::vector<std::vector<int>> blocks;
  std::vector<std::string> notes;  // what a reader of the results must know
};

// Above this share of the wall time that no phase accounts for, a step is marked.
constexpr double kUnaccountedRatioMax = 0.01;

// One phase of one step: exclusive time over the ranks. The slowest rank counts; the fastest shows waiting.
struct PhaseSample {
  std::int64_t ns_max = 0;
  std::int64_t ns_min = 0;
  std::int64_t ns_sum = 0;  // over ranks
};

// What the ranks of one role did in one step, added up over them.
struct RoleSample {
  int ranks = 0;
  std::int64_t wall_ns = 0;
  std::int64_t idle_ns = 0;  // in phases that only wait: idle, wait_rollouts, wait_weights
};

// One step of one launch, as rank 0 gathered it.
struct StepSample {
  int step = 0;
  bool warmup = false;
  std::int64_t wall_ns = 0;  // of the slowest rank that trains: from one step's end to the next
  std::map<std::string, PhaseSample> phases;
  std::map<std::string, RoleSample> roles;  // "colocated", or "train" and "rollout"
  double unaccounted_ratio_max = 0;         // worst rank: |wall - sum of phases| / wall. Marked above 1%
  double loss = 0;
  double reward_mean = 0;
  double log_prob_mean = 0;
  double gradient_norm = 0;
  std::uint64_t token_checksum = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t response_tokens = 0;
  std::int64_t trained_tokens = 0;
  double age_mean = 0;  // over answers: updates that their weights were behind
  int age_max = 0;
  double full_ratio = 0;                                // share of answers of their longest length
  std::uint64_t answer_bytes = 0;                       // from ranks that generate to those that train
  std::uint64_t weight_bytes = 0;                       // and back, as handed to the transport
  std::uint64_t dispatch_logical_bytes = 0;             // all ranks, modelled from the routing
  std::uint64_t dispatch_wire_bytes = 0;                // all ranks, counted as handed to the transport
  std::uint64_t dispatch_wire_bytes_between_nodes = 0;  // the part of it that left its node
};

// What went over the network in one launch, warm-up and all.
struct TrafficSample {
  std::string nic_source;          // whose counters: "tx_bytes of lo"; empty when no interface counts these bytes
  std::uint64_t nic_bytes = 0;     // sent, as they say, all hosts
  std::uint64_t handed_bytes = 0;  // to the transport, for ranks that these interfaces lead to, all ranks
  // By rank: how long the others waited for it after half of those that they waited for had come (Channel::Traffic).
  std::vector<std::int64_t> late_ns;
};

// Transports, endpoints, buffers, dispatcher and policy made anew, then all of their steps.
struct LaunchSample {
  int block = 0;
  int index = 0;          // of the run
  std::string transport;  // what really carried the bytes: "libfabric", "mpi"
  std::string provider;   // "shm", "tcp;ofi_rxm", "vader"
  std::vector<StepSample> steps;
  TrafficSample traffic;
};

enum class ResultStatus {
  pending,  // no launch has come to its end yet
  done,
  failed,
  skipped
};
std::string status_text(ResultStatus);

// Everything known of one experiment.
struct Result {
  Experiment experiment;
  ResultStatus status = ResultStatus::pending;
  std::string reason;               // failed or skipped: why
  bool wrong = false;               // failed because the dispatcher disagreed with the reference
  std::string source = "measured";  // or: modelled
  std::vector<LaunchSample> launches;
  Summary tokens_per_s;            // over launches: prompt + response tokens a second, all ranks, wall time
  RatioEstimate against_baseline;  // of tokens_per_s
  bool same_work = true;           // losses and tokens agree with the baseline's, step by step
  bool same_lag = true;            // otherwise its answers are of other weights, and only their prompts are the same
  double loss_difference_max = 0;  // see work_difference()
  bool same_tokens = true;         // and sampled exactly the same answers; sums in another order may tip a sample
};

// Everything a run has found so far.
struct RunRecord {
  std::vector<Result> results;  // in the order of the plan, skipped ones last
  int launches_done = 0;
  int launches_planned = 0;
  int blocks_done = 0;
  std::string status = "running";  // then: ok, partial, failed, interrupted
  std::vector<std::string> notes;  // what a reader of the numbers must know
};

// How far apart two steps are that should have done the same: the larger relative difference of their losses and of
// their mean log-probabilities (losses below 0.01 count as 0.01: they are sums that cancel).
double work_difference(const StepSample&, const StepSample&);

// Updates that the weights behind an answer are behind those that train on it, where that is the same in every run; -1
// where it is not (async). Only experiments of the same lag train the same curve.
int policy_lag(const Config&);

// What work_difference() may be between variants: sums in another order, and no more.
double work_tolerance(const Config&);

// Tokens a second of one launch: prompt and response tokens of the counted steps over their wall time.
double launch_tokens_per_s(const LaunchSample&);

}  // namespace mrb
