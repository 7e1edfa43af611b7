// The weights' way down.
#pragma once

#include <cstdint>
#include <span>

namespace mrb {

struct AdamWStep {
  double learning_rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
  double gradient_scale = 1;  // from clipping
  std::int64_t step = 1;      // from 1, for the bias correction
};

class OptimizerOps {
 public:
  virtual ~OptimizerOps() = default;

  // One step of AdamW with decoupled decay (Loshchilov, Hutter), as torch.optim.AdamW computes it. All four have the
  // same length.
  virtual void adamw(const AdamWStep&, std::span<float> weights, std::span<const float> gradients,
                     std::span<float> first_moments, std::span<float> second_moments) = 0;

  // In f64.
  virtual double sum_of_squares(std::span<const float> values) = 0;
};

}  // namespace mrb
