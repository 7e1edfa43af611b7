// Kernels of the policy and its optimiser: their arguments, and how to launch them. They compute what the operations of
// src/compute do, on the same layouts, in f32. All pointers are the device's.
#pragma once

#include <cstdint>

#include "kernels/launch.hpp"

namespace mrb::kernels {

// ---- rms_norm.cu: LayerOps::rms_norm

struct RmsNormArgs {
  const float* x;      // [rows][width]
  const float* gain;   // [width]
  float* y;            // [rows][width]
  float* inverse_rms;  // [rows]
  std::int32_t rows;
  std::int32_t width;
  double eps;
};
void rms_norm(const RmsNormArgs&, Stream);

struct RmsNormBackwardArgs {
  const float* dy;           // [rows][width]
  const float* x;            // [rows][width]
  const float* gain;         // [width]
  const float* inverse_rms;  // [rows]
  float* dx;                 // [rows][width], overwritten
  float* dgain;              // [width], added to
  float* partial_dgain;      // scratch: gain_partials(rows) * width
  std::int32_t rows;
  std::int32_t width;
};
void rms_norm_backward(const RmsNormBackwardArgs&, Stream);

constexpr std::int32_t kRowsPerGainPartial = 64;
constexpr std::int32_t gain_partials(std::int32_t rows) {
  return (rows + kRowsPerGainPartial - 1) / kRowsPerGainPartial;
}

// ---- swiglu.cu: LayerOps::swiglu

struct SwigluArgs {
  const float* gate_up;  // [rows][gate (width) | up (width)]
  const float* scale;    // [rows]; null: all 1
  float* y;              // [rows][width]
  std::int32_t rows;
  std::int32_t width;
};
void swiglu(const SwigluArgs&, Stream);

struct SwigluBackwardArgs {
  const float* dy;       // [rows][width]
  const float* gate_up;  // [rows][2 * width]
  const float* scale;    // [rows]; null: all 1
  float* dgate_up;       // [rows][2 * width]
  float* dscale;         // [rows]; not written when scale is null
  std::int32_t rows;
  std::int32_t width;
};
void swiglu_backward(const SwigluBackwardArgs&, Stream);

// ---- attention_decode.cu: AttentionOps::rotate and decode

struct RotateArgs {
  float* qkv;                     // [rows][(heads + 2 * kv_heads) * head_dim], turned in place
  const std::int32_t* positions;  // [rows]
  std::int32_t rows;
  std::int32_t heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  double theta;
  bool is_backward;  // gradients turn the other way
};
void rotate(const RotateArgs&, Stream);

// One new token per sequence. The cache is in pages of page_tokens tokens, so that sequences grow without room kept for
// the longest; page i of sequence s is number pages[s][i].
struct DecodeArgs {
  const float* qkv;            // [sequences][(heads + 2 * kv_heads) * head_dim]
  const std::int32_t* pages;   // [sequences][pages_max]
  const std::int32_t* tokens;  // [sequences]: with the new one, whose row of the cache is written here
  float* keys;                 // [pages][page_tokens][kv_heads * head_dim]
  float* values;               // the same
  float* out;                  // [sequences][heads * head_dim]
  std::int32_t sequences;
  std::int32_t pages_max;
  std::int32_t page_tokens;
  std::int32_t heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
};
void attend_decode(const DecodeArgs&, Stream);

// ---- router.cu: RouterOps

struct RouteArgs {
  const float* logits;       // [tokens][experts]
  float* probabilities;      // [tokens][experts]
  std::int32_t* expert_ids;  // [tokens][top_k]
  float* weights;            // [tokens][top_k]
  std::int32_t tokens;
  std::int32_t experts;
  std::int32_t top_k;
};
void route(const RouteArgs&, Stream);

struct RouteBackwardArgs {
  const float* dweights;           // [tokens][top_k]
  const float* probabilities;      // [tokens][experts]
  const std::int32_t* expert_ids;  // [tokens][top_k]
  const float* weights;            // [tokens][top_k]
  const float* balance;            // [experts]; null: no such term
  float* dlogits;                  // [tokens][experts]
  std::int32_t tokens;
  std::int32_t experts;
  std::int32_t top_k;
};
void route_backward(const RouteBackwardArgs&, Stream);

// ---- tokens.cu: TokenOps::log_prob and sample

struct LogProbArgs {
  const float* logits;          // [rows][vocabulary]
  const std::int32_t* targets;  // [rows]
  float* log_probs;             // [rows]
  float* log_sum;               // [rows]
  std::int32_t rows;
  std::int32_t vocabulary;
  double temperature;
};
void log_prob(const LogProbArgs&, Stream);

struct LogProbBackwardArgs {
  float* logits;                // [rows][vocabulary], become their gradients
  const std::int32_t* targets;  // [rows]
  const float* log_sum;         // [rows]
  const float* dlog_probs;      // [rows]
  std::int32_t rows;
  std::int32_t vocabulary;
  double temperature;
};
void log_prob_backward(const LogProbBackwardArgs&, Stream);

struct SampleArgs {
  const float* logits;     // [rows][vocabulary]
  const double* uniforms;  // [rows], in [0, 1)
  std::int32_t* ids;       // [rows]
  float* log_probs;        // [rows]: of the drawn token, in the whole softmax
  std::int32_t rows;
  std::int32_t vocabulary;
  std::int32_t excluded;  // never drawn; -1: none
  double temperature;
};
void sample(const SampleArgs&, Stream);

// ---- adamw.cu: OptimizerOps::adamw

struct AdamwArgs {
  float* weights;  // [count], as the three below
  const float* gradients;
  float* first_moments;
  float* second_moments;
  std::int64_t count;
  double learning_rate;
  double beta1;
  double beta2;
  double eps;
  double weight_decay;
  double gradient_scale;
  std::int64_t step;  // from 1
};
void adamw(const AdamwArgs&, Stream);

}  // namespace mrb::kernels
