#include "planner/train_step.hpp"

#include <algorithm>

#include "base/units.hpp"
#include "planner/model_cost.hpp"

namespace mrb {

namespace {

constexpr double kMs = 1e-3;

// What a pass does, in forward passes: its operations, its layers' fixed costs, and exchanges in each layer.
struct Pass {
  double flop, layers, exchanges, tensor_reductions;
};

// Gradients in f32 are scattered and gathered over the data ranks (twice their bytes), by the nodes' interfaces where the
// ranks span nodes; AdamW then reads and writes 24 bytes a weight of its own part.
double update_s(const ModelShape& shape, const Parallelism& split, const Instance& instance) {
  const ParameterCount count = count_parameters(shape);
  const double experts = static_cast<double>(count.experts) / (split.expert * split.pipeline);
  const double others = static_cast<double>(count.total - count.experts) / (split.tensor * split.pipeline);
  const double expert_copies = split.expert_data(), copies = split.data();
  const double bytes = 2 * 4 * (experts * (expert_copies - 1) / expert_copies + others * (copies - 1) / copies);
  const bool is_on_one_node = split.gpus <= instance.nvlink_domain_gpus;
  const double rate = is_on_one_node ? instance.nvlink_gbyte_per_s : instance.efa_gbyte_per_s;
  const double own = experts / expert_copies + others / copies;
  return bytes / (rate * kGbyte) + 24 * own / (instance.hbm_gbyte_per_s * kGbyte);
}

// Operations of the busiest expert rank over the mean: all but the experts' are even, and a rank that holds all experts
// has no busier one.
double busiest_ratio(const ModelShape& shape, const TrainStep& step) {
  if (step.split.expert == 1) return 1;
  const double expert_flop =
      2.0 * 3 * shape.top_k * shape.hidden * shape.expert_ff * (shape.layers - shape.dense_layers);
  return 1 + (step.imbalance - 1) * expert_flop / forward_flop(shape, step.tokens_per_sequence / 2);
}

std::vector<double> terms(const ModelShape& shape, const TrainStep& step, const Instance& instance, const Pass& pass) {
  const Parallelism& split = step.split;
  const double tokens = step.micro_sequences * step.tokens_per_sequence;
  const double layer_turns = pipeline_turns(step) * shape.layers / split.pipeline;
  const double flop = pass.flop * forward_flop(shape, step.tokens_per_sequence / 2) * tokens /
                      (split.tensor * split.pipeline) * busiest_ratio(shape, step);
  const double exchanges = layer_turns * pass.exchanges;
  const MoeBytes bytes = moe_bytes({.pattern = step.pattern,
                                    .tokens = tokens / split.tensor * step.imbalance,
                                    .row_bytes = 2.0 * shape.hidden,
                                    .experts = shape.experts,
                                    .top_k = shape.top_k,
                                    .ranks = split.expert,
                                    .ranks_per_node = std::min(split.expert, instance.nvlink_domain_gpus)});
  const double nic_s = exchanges * bytes.nic_bytes / (instance.efa_gbyte_per_s * kGbyte);
  const bool is_overlapped = step.overlap == Overlap::on;
  const double tensor_bytes =
      layer_turns * pass.tensor_reductions * 2 * (split.tensor - 1) / split.tensor * tokens * 2.0 * shape.hidden;
  return {pipeline_turns(step) * flop / (instance.bf16_tflop_per_s * kTflop),
          layer_turns * pass.layers / 3 * kMs,
          is_overlapped ? 0 : nic_s,
          is_overlapped ? nic_s : 0,
          is_overlapped ? 0 : exchanges * kMs,
          (tensor_bytes + exchanges * bytes.nvlink_bytes) / (instance.nvlink_gbyte_per_s * kGbyte),
          pass.flop > 1 ? update_s(shape, split, instance) : 0};
}

}  // namespace

double pipeline_turns(const TrainStep& step) {
  return step.sequences / (step.split.data() * step.micro_sequences) + step.split.pipeline - 1;
}

std::vector<double> train_terms(const ModelShape& shape, const TrainStep& step, const Instance& instance) {
  const bool is_recomputed = step.recompute == Recompute::full;
  return terms(shape, step, instance, is_recomputed ? Pass{4, 3, 6, 6} : Pass{3, 3, 4, 4});
}

std::vector<double> forward_terms(const ModelShape& shape, const TrainStep& step, const Instance& instance) {
  return terms(shape, step, instance, {1, 1, 2, 2});
}

}  // namespace mrb
