// Everything a user can decide, as plain structs with their defaults. fields.cpp gives each field its YAML key, its
// range and its sentence; the key is the field's name, and so are the flag and the CSV column.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/model_shape.hpp"

namespace mrb {

// One step of GRPO. The defaults suit the model `tiny` on a laptop.
struct GrpoConfig {
  std::string preset = "none";        // or a framework whose choices are the defaults of some fields: grpo_presets.hpp
  int prompts = 16;                   // per step, over all ranks
  int group_size = 16;                // answers sampled per prompt
  int prompt_tokens = 8;              // length of each prompt
  int response_tokens_max = 8;        // no answer is longer
  std::string lengths = "until_end";  // or: fixed, lognormal, empirical (grpo/lengths.hpp)
  int response_tokens_min = 4;      // until_end: each answer's longest length is drawn from this to response_tokens_max
  double length_mean = 4;           // lognormal: before response_tokens_max cuts
  double length_cv = 1;             // lognormal: standard deviation over mean
  double length_correlation = 0.5;  // lognormal, empirical: within a group, of the normal numbers behind them
  std::string length_file = "";     // empirical: one length per line
  double temperature = 1.0;         // of sampling, and of the log-probabilities
  int overlong_tokens = 0;          // the last ones below response_tokens_max cost reward, the last one 1; 0: none do
  std::string advantage = "grpo";   // how answers of a group are compared: grpo/advantages.hpp lists the kinds
  double advantage_eps = 1e-6;      // added to the standard deviation
  std::string objective = "clip";   // or: gspo, cispo
  double clip_low = 0.2;            // the ratio is clipped to [1 - clip_low, 1 + clip_high]
  double clip_high = 0.28;
  double dual_clip = 3.0;                  // bound on the loss of bad answers; 0 switches it off
  double kl_coef = 0.0;                    // weight of the KL divergence from the initial policy
  std::string kl_estimator = "k3";         // or: k1, k2, k3_plus
  std::string aggregation = "token_mean";  // how tokens are averaged: grpo/objective.hpp lists the ways
  std::string correction = "none";         // for the rollout's other policy: grpo/correction.hpp lists them
  double correction_low = 0.0;             // masks drop ratios below this ...
  double correction_high = 2.0;            // ... and above this; truncation cuts them to it
  double reward_delay_ms = 0;              // slept in the phase `reward` of every step, as a slow verifier would take
  int epochs = 1;                          // passes over the step's batch
  int minibatches = 2;                     // optimiser steps per pass
  int micro_batch_tokens = 2048;           // per rank: most tokens whose activations are held at once
  double router_aux_coef = 0.0;            // weight of the load-balancing loss
};

struct OptimizerConfig {  // AdamW
  double learning_rate = 3e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.0;
  double clip_norm = 1.0;  // of the global gradient; 0 switches clipping off
};

// Which ranks generate, which train, and how far the one may be ahead of the other.
struct ScheduleConfig {
  std::string name = "colocated";           // or: disaggregated, one_step_off, async
  std::string rollout_train_ratio = "1:1";  // ranks that generate to ranks that train; not of colocated
  int rollout_ranks = 0;                    // 0: by rollout_train_ratio
  int max_staleness = 1;                    // of async: updates that weights may be behind when an answer is begun
  bool in_flight = false;                   // of async: new weights are taken between two tokens, not between two steps
  double timeout_s = 600;                   // longest wait of one side for the other
};

// How the generating side works.
struct RolloutConfig {
  std::string dispatcher = "same";         // or a dispatcher of its own
  int expert_parallel = 0;                 // ranks that share one copy of the experts; 0: all that generate
  std::int64_t kv_cache_bytes = 0;         // per rank; 0: all its answers to one step's prompts run at once
  std::int64_t bucket_bytes = 64LL << 20;  // new weights travel in pieces of at most so many bytes
};

struct DispatcherConfig {
  std::string name = "alltoall";
  std::string dispatch_dtype = "f32";  // of rows on the wire to the experts: f32, bf16, fp8 or fp8_pow2
  std::string combine_dtype = "f32";   // of rows on their way back
  int tokens_max = 0;                  // low_latency and proxy: tokens of a rank in one call; 0: what the run needs
  std::string batching = "expert";     // low_latency: what goes into one put: token, expert or rank
  std::string dedup = "rank";          // proxy: what is sent once instead of once per copy: none, rank or node
  int prefix_rows = 64;                // proxy: rows sent to each rank before the counts are known
};

struct TransportConfig {
  std::string name = "mpi";       // validation names those in this build
  std::string provider = "";      // of libfabric: tcp, shm or efa. There is no default: what is asked for is used
  int rails = 0;                  // of libfabric: network interfaces that carry puts; 0: all there are
  std::string progress = "poll";  // of libfabric: or thread, which polls while the rank computes
  double timeout_s = 60;          // longest wait for any one message
};

// A transport made as bad as a transport may be, to test dispatchers. Times under it mean nothing.
struct ChaosConfig {
  std::uint64_t seed = 0;             // 0: off
  int late_start_ms = 0;              // each rank starts up to so much late
  int stop_rank = -1;                 // makes no progress any more after ...; -1: none
  std::uint64_t stop_after_puts = 0;  // ... so many puts of a launch
};

struct ComputeConfig {
  std::string name = "cpu";
  std::string dtype = "f32";  // of the inputs of matrix products: f32 or bf16. Sums are f32
  int threads = 0;            // per rank; 0 shares the cores this node gave us among its ranks
};

// How long to measure. The defaults suit a step of about 100 ms.
struct MeasureConfig {
  int blocks = 3;           // each runs every variant twice, in the order A B B A
  int warmup_steps = 1;     // of each launch, run and not counted
  int steps = 3;            // of each launch, counted
  double time_limit_s = 0;  // begins no block after this; 0: no limit
};

struct OutputConfig {
  std::string dir = "results";  // each run makes a new folder in it
};

// One value for every field.
struct Config {
  int ranks = 1;
  int ranks_per_node = 0;  // as the dispatchers see it; 0: as it is. Fewer than there are emulate more nodes
  std::uint64_t seed = 1;
  ModelShape model;
  GrpoConfig grpo;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  RolloutConfig rollout;
  DispatcherConfig dispatcher;
  TransportConfig transport;
  ChaosConfig chaos;
  ComputeConfig compute;
  MeasureConfig measure;
  OutputConfig output;
};

}  // namespace mrb
