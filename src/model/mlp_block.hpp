// x += experts(norm(x)), or x += mlp(norm(x)) in the leading dense layers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/context.hpp"
#include "model/swiglu_mlp.hpp"

namespace mrb {

// What forward() keeps for backward().
struct MlpTape {
  Tensor x;            // the block's input [T][hidden]
  Tensor inverse_rms;  // [1][T]
  // Layers with experts:
  Tensor probabilities;                  // [T][experts]
  Tensor gates;                          // [T][top_k]
  std::vector<std::int32_t> expert_ids;  // [T][top_k]
  std::unique_ptr<Route> route;
  Tensor rows;            // what this rank's experts received [N][hidden]
  Tensor row_gates;       // [1][N]
  Tensor expert_gate_up;  // [N][2 expert_ff]
  // The shared expert, or the dense layer:
  Tensor local_gate_up;
};

// All calls are collective in layers with experts.
class MlpBlock {
 public:
  MlpBlock(const ModelContext&, int layer);

  std::size_t publish();

  // x[T][hidden] is replaced by the block's output. Adds the copies this rank routed to `load`, by expert.
  void forward(Tensor& x, MlpTape&, std::vector<std::int64_t>& load) const;

  // dx[T][hidden]: from the gradient of the output to that of the input. `balance`: see RouterOps::route_backward.
  void backward(Matrix dx, MlpTape&, std::span<const float> balance) const;

 private:
  void run_experts(const Tensor& normed, MlpTape&, std::vector<std::int64_t>& load, Matrix y) const;
  void experts_backward(ConstMatrix dy, const Tensor& normed, MlpTape&, std::span<const float> balance,
                        Matrix dnormed) const;

  const ModelContext& context_;
  Norm norm_;
  std::optional<Linear> router_;      // layers with experts
  std::optional<SwigluMlp> experts_;  // this rank's
  std::optional<SwigluMlp> local_;    // the shared expert, or the dense layer
};

}  // namespace mrb
