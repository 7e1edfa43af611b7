// Correct before fast: a dispatcher is compared with the reference on the real shapes before it is timed.
#pragma once

#include <cstdint>

#include "dispatch/dispatcher.hpp"

namespace mrb {

struct DispatchCheck {
  std::int64_t tokens_per_rank = 0;
  int top_k = 1;
  std::uint64_t seed = 0;
};

// Collective. dispatch() and combine() are each compared with the reference, bit for bit, on random routing
// that every rank draws for all ranks by itself. Throws on all ranks Error(wrong_result) that names the
// dispatcher, the half, the rank, the row and both values.
void check_dispatcher(Dispatcher&, Bootstrap&, const DispatcherOptions&, const DispatchCheck&);

}  // namespace mrb
