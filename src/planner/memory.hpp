// What one GPU must hold while it trains, and while it generates.
#pragma once

#include "config/model_shape.hpp"

namespace mrb {

// How the training ranks are split. Expert matrices are not split over tensor ranks (expert tensor parallelism 1).
struct Parallelism {
  int gpus = 1;      // that train
  int tensor = 1;    // TP
  int pipeline = 1;  // PP
  int expert = 1;    // EP, over tensor and data ranks

  int data() const { return gpus / (tensor * pipeline); }         // copies of what is not an expert
  int expert_data() const { return gpus / (expert * pipeline); }  // copies of each expert
};

// Weights in bf16, gradients in f32, and 12 bytes of AdamW a weight, which data ranks share among them.
struct TrainMemory {
  double weight_bytes = 0;
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  double activation_bytes = 0;
  double logit_bytes = 0;

  double static_bytes() const { return weight_bytes + gradient_bytes + optimizer_bytes; }
  double total_bytes() const { return static_bytes() + activation_bytes + logit_bytes; }
};

// With `tokens` in a micro-batch. Activations: with full recompute only the input of each layer of each micro-batch in
// flight (one per pipeline stage); without it 34 bytes per token and hidden value and layer (Korthikanti 2022,
// attention scores never stored) plus two rows per copy of the experts' inner width. Divided over tensor ranks
// (sequence parallel). Copies are those of the busiest rank: `imbalance` times the mean.
enum class Recompute { none, full };
TrainMemory train_memory(const ModelShape&, const Parallelism&, double tokens, Recompute, double imbalance);

// Bytes of weights on each of the `gpus` of an engine, and of keys and values of one token on each.
double rollout_weight_bytes(const ModelShape&, int gpus);
double kv_bytes_per_gpu(const ModelShape&, int gpus);

}  // namespace mrb
