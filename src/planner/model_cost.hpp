// Operations and bytes of a model: for one token, and for one step of decoding.
#pragma once

#include "config/model_shape.hpp"

namespace mrb {

// Floating point operations of one token in the forward pass that sees `context` tokens before it (the mean, S / 2,
// for causal training on sequences of S): 2 (active weights without the input embedding) + attention.
double forward_flop(const ModelShape&, double context);

// Operations of attention alone, per token. Decoding with latent attention works on the latent vectors.
enum class AttentionForm { whole, decode };
double attention_flop(const ModelShape&, double context, AttentionForm);

// Share of the experts that a batch of `tokens` touches if each draws its top_k evenly: 1 - (1 - k / E)^tokens.
double touched_experts_ratio(const ModelShape&, double tokens);

// How an engine (the `gpus` that hold one copy of the model for rollout) reads and computes.
struct DecodeRate {
  int gpus = 1;                     // of one engine
  double read_byte_per_s = 0;       // of all of them, as achieved
  double flop_per_s = 0;            // of all of them, as achieved
  double fixed_s = 0;               // launches and communication of one step
  double kv_bytes_per_element = 2;  // bf16
  double weight_bytes_per_weight = 2;
};

// What does not change from step to step, worked out once.
struct DecodeCost {
  double dense_bytes = 0;     // read in every step: all weights but experts and the input embedding
  double expert_bytes = 0;    // of all experts
  double kv_bytes = 0;        // of one token of context
  double flop_per_token = 0;  // without attention
  double miss_ratio = 0;      // 1 - k / E
  double read_byte_per_s = 0;
  double flop_per_s = 0;
  double fixed_s = 0;

  // Seconds for one step of `sequences` that hold `context` tokens each: the longer of reading and computing.
  double step_s(double sequences, double context) const;
};

DecodeCost decode_cost(const ModelShape&, const DecodeRate&);

}  // namespace mrb
