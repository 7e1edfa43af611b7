// Keys and values of the sequences that are being generated.
#pragma once

#include <cstdint>
#include <vector>

#include "compute/attention.hpp"
#include "compute/backend.hpp"
#include "config/model_shape.hpp"

namespace mrb {

// `slots` sequences of at most `tokens_max` tokens each, in every layer.
class KvCache {
 public:
  KvCache(ComputeBackend&, const ModelShape&, int slots, int tokens_max);

  // The slot's keys and values in `layer`; `tokens` is what length(slot) says.
  CacheSlot at(int layer, int slot) const;

  int length(int slot) const { return lengths_[static_cast<std::size_t>(slot)]; }
  // Throws Error(internal) beyond tokens_max: the next slot begins there.
  void set_length(int slot, int tokens);

  // Makes `to` the first `tokens` tokens of `from`: the samples of a group share their prompt.
  void copy_slot(int from, int to, int tokens);

  std::size_t bytes() const;

 private:
  int layers_;
  int slots_;
  int tokens_max_;
  int kv_width_;
  Tensor memory_;  // [layer][slot][keys, values][token][kv_width]
  std::vector<int> lengths_;
};

}  // namespace mrb
