#include "base/phase_clock.hpp"

#include <cassert>

namespace mrb {

void PhaseClock::begin_step() {
  assert(running_.empty());
  phase_ns_.clear();
  step_began_ns_ = last_change_ns_ = clock_.now_ns();
}

PhaseClock::StepTimes PhaseClock::end_step() {
  assert(running_.empty());
  StepTimes times;
  times.wall_ns = clock_.now_ns() - step_began_ns_;
  times.unaccounted_ns = times.wall_ns;
  for (const auto& [name, ns] : phase_ns_) times.unaccounted_ns -= ns;
  times.phase_ns = std::move(phase_ns_);
  phase_ns_.clear();
  return times;
}

void PhaseClock::enter(std::string_view name) {
  charge(clock_.now_ns());
  running_.push_back(running_.empty() ? std::string(name) : running_.back() + "." + std::string(name));
}

void PhaseClock::leave() {
  charge(clock_.now_ns());
  running_.pop_back();
}

void PhaseClock::charge(std::int64_t now_ns) {
  if (!running_.empty()) phase_ns_[running_.back()] += now_ns - last_change_ns_;
  last_change_ns_ = now_ns;
}

}  // namespace mrb
