#include "base/clock.hpp"

#include <chrono>

namespace mrb {

std::int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::int64_t SteadyClock::now_ns() const {
  return steady_now_ns();
}

}  // namespace mrb
