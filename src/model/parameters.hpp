// The weights of one rank, their gradients and the optimiser's moments, each in one piece of memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cluster/placement.hpp"
#include "compute/backend.hpp"
#include "config/model_shape.hpp"

namespace mrb {

// One weight tensor. `offset` counts elements from the start of the memory; replicated tensors come first, this
// rank's experts after them.
struct ParameterTensor {
  std::string name;  // "layers.0.attention.qkv", "layers.1.experts.gate_up"
  std::int64_t offset = 0;
  std::int64_t rows = 0;  // experts: local experts times the rows of one
  std::int64_t columns = 0;
  bool is_expert = false;
};

// Where every tensor of one rank lies.
struct ParameterLayout {
  std::vector<ParameterTensor> tensors;
  std::int64_t replicated_count = 0;  // elements; experts follow
  std::int64_t count = 0;
};

//   embedding                    [vocab][hidden]
//   layers.N.attention_norm      [1][hidden]
//   layers.N.attention.qkv       [q_width + 2 kv_width][hidden]
//   layers.N.attention.output    [hidden][q_width]
//   layers.N.mlp_norm            [1][hidden]
//   layers.N.router              [experts][hidden]                          MoE layers
//   layers.N.shared.gate_up      [2 shared_ff][hidden]                      MoE layers, with a shared expert
//   layers.N.shared.down         [hidden][shared_ff]
//   layers.N.dense.gate_up       [2 dense_ff][hidden]                       dense layers
//   layers.N.dense.down          [hidden][dense_ff]
//   final_norm                   [1][hidden]
//   head                         [vocab][hidden]                            unless tied
//   layers.N.experts.gate_up     [local experts * 2 expert_ff][hidden]      MoE layers
//   layers.N.experts.down        [local experts * hidden][expert_ff]
ParameterLayout lay_out_parameters(const ModelShape&, int local_experts);

class Parameters {
 public:
  Parameters(ComputeBackend&, const ModelShape&, const ExpertPlacement&, int rank);

  const std::vector<ParameterTensor>& tensors() const { return layout_.tensors; }
  const ParameterTensor& find(const std::string& name) const;

  Matrix weight(const ParameterTensor&) const;
  Matrix gradient(const ParameterTensor&) const;

  // All of it, and its two parts.
  std::span<float> weights() const;
  std::span<float> gradients() const;
  std::int64_t replicated_count() const { return layout_.replicated_count; }  // elements; experts follow

  // Draws every tensor from (seed, tensor name, global expert): normal with deviation 0.02, the outputs of attention
  // and of experts divided by sqrt(2 layers) as in GPT-2; norms are 1.
  void draw(std::uint64_t seed);

 private:
  ParameterLayout layout_;
  int first_expert_ = 0;
  int local_experts_ = 1;
  int layers_ = 1;
  Tensor weights_;
  Tensor gradients_;
};

}  // namespace mrb
