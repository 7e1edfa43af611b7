#include "planner/memory.hpp"

#include <algorithm>

namespace mrb {

TrainMemory train_memory(const ModelShape& shape, const Parallelism& split, double tokens, Recompute recompute,
                         double imbalance) {
  const ParameterCount count = count_parameters(shape);
  const double experts = static_cast<double>(count.experts) / (split.expert * split.pipeline);
  const double others = static_cast<double>(count.total - count.experts) / (split.tensor * split.pipeline);
  TrainMemory memory;
  memory.weight_bytes = 2 * (experts + others);
  memory.gradient_bytes = 4 * (experts + others);
  memory.optimizer_bytes = 12 * (experts / split.expert_data() + others / split.data());
  const double rows = tokens / split.tensor;
  const double layers = static_cast<double>(shape.layers) / split.pipeline;
  const double kept = 34.0 * shape.hidden + imbalance * shape.top_k * 2 * (2.0 * shape.hidden + 3.0 * shape.expert_ff);
  memory.activation_bytes =
      recompute == Recompute::full
          ? rows * (2.0 * shape.hidden * layers * split.pipeline + kept)  // inputs, and one layer that is worked on
          : rows * kept * layers * split.pipeline;
  memory.logit_bytes = 2 * 4 * rows * shape.vocab;  // logits and their gradient, f32
  return memory;
}

double rollout_weight_bytes(const ModelShape& shape, int gpus) {
  return 2.0 * static_cast<double>(count_parameters(shape).total) / gpus;
}

double kv_bytes_per_gpu(const ModelShape& shape, int gpus) {
  const auto whole = static_cast<double>(kv_bytes_per_token(shape, 2));
  // One latent vector serves all heads, so every rank holds it; a head of grouped queries is never cut.
  if (shape.attention == "mla") return whole;
  return whole / std::min(gpus, shape.kv_heads);
}

}  // namespace mrb
