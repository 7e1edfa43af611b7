// The families of operations that are written by hand for processors.
#pragma once

#include "compute/attention.hpp"
#include "compute/layers.hpp"
#include "compute/optimizer.hpp"
#include "compute/router.hpp"
#include "compute/tokens.hpp"

namespace mrb {

class CpuLayers final : public LayerOps {
 public:
  void rms_norm(ConstMatrix x, const float* gain, double eps, Matrix y, float* inverse_rms) override;
  void rms_norm_backward(ConstMatrix dy, ConstMatrix x, const float* gain, const float* inverse_rms, Matrix dx, Store,
                         float* dgain) override;
  void swiglu(ConstMatrix gate_up, const float* scale, Matrix y) override;
  void swiglu_backward(ConstMatrix dy, ConstMatrix gate_up, const float* scale, Matrix dgate_up,
                       float* dscale) override;
  void add(ConstMatrix x, Matrix y) override;
};

class CpuAttention final : public AttentionOps {
 public:
  void rotate(Matrix qkv, std::span<const std::int32_t> positions, HeadShape, double theta, Rotation) override;
  void attend(ConstMatrix qkv, std::span<const std::int32_t> offsets, HeadShape, Matrix out, float* log_sum) override;
  void attend_backward(ConstMatrix dout, ConstMatrix qkv, ConstMatrix out, const float* log_sum,
                       std::span<const std::int32_t> offsets, HeadShape, Matrix dqkv) override;
  void decode(ConstMatrix qkv, std::span<const CacheSlot> slots, HeadShape, Matrix out) override;
};

class CpuRouter final : public RouterOps {
 public:
  void route(ConstMatrix logits, int top_k, Matrix probabilities, std::span<std::int32_t> expert_ids,
             Matrix weights) override;
  void route_backward(ConstMatrix dweights, ConstMatrix probabilities, std::span<const std::int32_t> expert_ids,
                      ConstMatrix weights, std::span<const float> balance, Matrix dlogits) override;
};

class CpuTokens final : public TokenOps {
 public:
  void embed(ConstMatrix table, std::span<const std::int32_t> ids, Matrix y) override;
  void embed_backward(ConstMatrix dy, std::span<const std::int32_t> ids, Matrix dtable) override;
  void log_prob(ConstMatrix logits, double temperature, std::span<const std::int32_t> targets,
                std::span<float> log_probs, std::span<float> log_sum) override;
  void log_prob_backward(Matrix logits, double temperature, std::span<const std::int32_t> targets,
                         std::span<const float> log_sum, std::span<const float> dlog_probs) override;
  void sample(ConstMatrix logits, double temperature, std::int32_t excluded, std::span<const double> uniforms,
              std::span<std::int32_t> ids, std::span<float> log_probs) override;
};

class CpuOptimizer final : public OptimizerOps {
 public:
  void adamw(const AdamWStep&, std::span<float> weights, std::span<const float> gradients,
             std::span<float> first_moments, std::span<float> second_moments) override;
  double sum_of_squares(std::span<const float> values) override;
};

}  // namespace mrb
