#include "model/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"

namespace mrb {

namespace {

constexpr double kDeviation = 0.02;

// FNV-1a: a number for a name, the same on every machine.
std::uint64_t name_key(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

bool ends_in_residual(const std::string& name) {
  return name.ends_with(".output") || name.ends_with(".down");
}

}  // namespace

ParameterLayout lay_out_parameters(const ModelShape& shape, int local_experts) {
  ParameterLayout layout;
  const auto tensor = [&](const std::string& name, std::int64_t rows, std::int64_t columns, bool is_expert = false) {
    layout.tensors.push_back({name, layout.count, rows, columns, is_expert});
    layout.count += rows * columns;
  };
  const std::int64_t hidden = shape.hidden;
  const std::int64_t q_width = std::int64_t{shape.heads} * shape.head_dim;
  const std::int64_t kv_width = std::int64_t{shape.kv_heads} * shape.head_dim;

  tensor("embedding", shape.vocab, hidden);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const auto name = [&](const char* part) { return fmt::format("layers.{}.{}", layer, part); };
    tensor(name("attention_norm"), 1, hidden);
    tensor(name("attention.qkv"), q_width + 2 * kv_width, hidden);
    tensor(name("attention.output"), hidden, q_width);
    tensor(name("mlp_norm"), 1, hidden);
    if (layer < shape.dense_layers) {
      tensor(name("dense.gate_up"), 2 * std::int64_t{shape.dense_ff}, hidden);
      tensor(name("dense.down"), hidden, shape.dense_ff);
      continue;
    }
    tensor(name("router"), shape.experts, hidden);
    if (shape.shared_ff > 0) {
      tensor(name("shared.gate_up"), 2 * std::int64_t{shape.shared_ff}, hidden);
      tensor(name("shared.down"), hidden, shape.shared_ff);
    }
  }
  tensor("final_norm", 1, hidden);
  if (!shape.tied_head) tensor("head", shape.vocab, hidden);
  layout.replicated_count = layout.count;

  for (int layer = shape.dense_layers; layer < shape.layers; ++layer) {
    const auto name = [&](const char* part) { return fmt::format("layers.{}.{}", layer, part); };
    tensor(name("experts.gate_up"), std::int64_t{local_experts} * 2 * shape.expert_ff, hidden, true);
    tensor(name("experts.down"), std::int64_t{local_experts} * hidden, shape.expert_ff, true);
  }
  return layout;
}

Parameters::Parameters(ComputeBackend& compute, const ModelShape& shape, const ExpertPlacement& placement, int rank)
    : layout_(lay_out_parameters(shape, placement.experts_per_rank())),
      first_expert_(placement.first_expert(rank)),
      local_experts_(placement.experts_per_rank()),
      layers_(shape.layers),
      weights_(compute, 1, layout_.count),
      gradients_(compute, 1, layout_.count) {
  weights_.zero();
  gradients_.zero();
}

const ParameterTensor& Parameters::find(const std::string& name) const {
  const auto found = std::find_if(layout_.tensors.begin(), layout_.tensors.end(),
                                  [&](const ParameterTensor& tensor) { return tensor.name == name; });
  if (found == layout_.tensors.end()) {
    throw Error(ErrorKind::internal, fmt::format("this model has no weights called '{}'", name),
                "report this with the command that shows it");
  }
  return *found;
}

Matrix Parameters::weight(const ParameterTensor& tensor) const {
  return {weights_.data() + tensor.offset, tensor.rows, tensor.columns};
}

Matrix Parameters::gradient(const ParameterTensor& tensor) const {
  return {gradients_.data() + tensor.offset, tensor.rows, tensor.columns};
}

std::span<float> Parameters::weights() const {
  return {weights_.data(), static_cast<std::size_t>(weights_.view().size())};
}

std::span<float> Parameters::gradients() const {
  return {gradients_.data(), static_cast<std::size_t>(gradients_.view().size())};
}

void Parameters::draw(std::uint64_t seed) {
  for (const ParameterTensor& tensor : layout_.tensors) {
    const Matrix weight = this->weight(tensor);
    if (tensor.name.ends_with("norm")) {
      std::fill_n(weight.data, weight.size(), 1.0f);
      continue;
    }
    const double deviation = ends_in_residual(tensor.name) ? kDeviation / std::sqrt(2.0 * layers_) : kDeviation;
    const int pieces = tensor.is_expert ? local_experts_ : 1;
    const std::int64_t piece_size = weight.size() / pieces;
    for (int piece = 0; piece < pieces; ++piece) {
      const auto expert = static_cast<std::uint64_t>(tensor.is_expert ? first_expert_ + piece : 0);
      Random random({seed, Random::weights, name_key(tensor.name), expert});
      float* out = weight.data + piece * piece_size;
      for (std::int64_t i = 0; i < piece_size; ++i) out[i] = static_cast<float>(deviation * random.normal());
    }
  }
}

}  // namespace mrb
