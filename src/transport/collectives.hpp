// Reductions over a channel, each in a fixed order, so that results are the same on every rank and in every
// run.
#pragma once

#include <cstdint>
#include <span>

#include "base/aligned_buffer.hpp"
#include "transport/channel.hpp"

namespace mrb {

// All methods are collective and block until done. Buffers grow to the longest input seen and are registered
// once.
class Collectives {
 public:
  explicit Collectives(Channel&);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // values[i] becomes the sum over ranks, added in ascending rank order. Each rank reduces one slice and
  // sends it to all: 2 (size - 1) / size times the bytes leave each rank. Lengths must be equal on all ranks.
  void all_reduce_sum(std::span<float> values);
  void all_reduce_sum(std::span<double> values);

  // The largest of all ranks' values, each for itself; kMaxValues at most.
  static constexpr std::size_t kMaxValues = 8;
  void all_reduce_max(std::span<std::int64_t> values);
  std::int64_t all_reduce_max(std::int64_t value);

 private:
  template <class T>
  void sum(std::span<T> values);
  void reserve(std::size_t slice_bytes);  // collective: all ranks ask for the same

  Channel& channel_;
  AlignedBuffer send_;
  AlignedBuffer receive_;
  std::size_t slice_capacity_bytes_ = 0;
  RegionId send_region_ = 0;
  RegionId receive_region_ = 0;
  bool exposed_ = false;
  std::size_t max_parity_ = 0;  // which of the two sets of slots all_reduce_max used last
};

}  // namespace mrb
