// Time, as everything here measures it.
#pragma once

#include <cstdint>

namespace mrb {

// Nanoseconds of a clock that never goes back. Tests pass their own, so that the expected numbers are exact.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::int64_t now_ns() const = 0;
};

// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  std::int64_t now_ns() const override;
};

// The monotonic clock, for deadlines.
std::int64_t steady_now_ns();

}  // namespace mrb
