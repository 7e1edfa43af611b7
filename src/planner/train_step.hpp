// The time of one update: forward, backward and the exchanges of every layer, micro-batch after micro-batch.
#pragma once

#include <vector>

#include "planner/instance.hpp"
#include "planner/memory.hpp"
#include "planner/moe_traffic.hpp"

namespace mrb {

enum class Overlap { off, on };  // of exchanges with computing

struct TrainStep {
  Parallelism split;
  double sequences = 0;  // of the whole batch
  double tokens_per_sequence = 0;
  double micro_sequences = 1;  // of one micro-batch on one data rank
  WirePattern pattern = WirePattern::per_copy;
  Recompute recompute = Recompute::none;
  Overlap overlap = Overlap::off;
  double imbalance = 1;  // rows of the busiest rank over the mean
};

// Micro-batches that one stage works on, and the turns in which the pipeline fills: batch / (data micro) + stages - 1.
double pipeline_turns(const TrainStep&);

// Physical times in the order of cost_terms("train_step"): operations at the peak rate, layers at 1 ms each, bytes of
// exchanges at line rate (not overlapped; overlapped), exchanges at 1 ms each, at NVLink rate the
// all-reduces of tensor ranks (two in each layer and direction) and exchanges within nodes, gradients and optimiser.
std::vector<double> train_terms(const ModelShape&, const TrainStep&, const Instance&);

// Of a forward pass alone (log-probabilities of the policy or of a reference).
std::vector<double> forward_terms(const ModelShape&, const TrainStep&, const Instance&);

}  // namespace mrb
