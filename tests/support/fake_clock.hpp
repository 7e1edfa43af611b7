// A clock that moves when it is told to.
#pragma once

#include "base/clock.hpp"

namespace mrb::test {

class FakeClock final : public Clock {
 public:
  // With `tick_ns` each reading moves it on by that much.
  explicit FakeClock(std::int64_t tick_ns = 0) : tick_ns_(tick_ns) {}

  std::int64_t now_ns() const override { return now_ns_ += tick_ns_; }
  void advance_ns(std::int64_t ns) { now_ns_ += ns; }

 private:
  std::int64_t tick_ns_;
  mutable std::int64_t now_ns_ = 0;
};

}  // namespace mrb::test
