// Where the time of a step goes on one rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"

namespace mrb {

// Splits wall time into exclusive phases. A phase that begins inside another pauses it and is named after it
// ("decode.dispatch"), so the phases of a step add up to its wall time; what is in no phase is `unaccounted_ns`.
class PhaseClock {
 public:
  explicit PhaseClock(const Clock& clock) : clock_(clock) {}

  // Begins a step. Times of the step before are dropped.
  void begin_step();

  struct StepTimes {
    std::map<std::string, std::int64_t> phase_ns;  // exclusive
    std::int64_t wall_ns = 0;
    std::int64_t unaccounted_ns = 0;  // wall less the sum of phases
  };

  // Ends the step. No phase may be open.
  StepTimes end_step();

  // Times a phase from construction to destruction.
  class Scope {
   public:
    Scope(PhaseClock& owner, std::string_view name) : owner_(owner) { owner_.enter(name); }
    ~Scope() { owner_.leave(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseClock& owner_;
  };

 private:
  void enter(std::string_view name);
  void leave();
  void charge(std::int64_t now_ns);  // the time since the last change goes to the phase that is running

  const Clock& clock_;
  std::map<std::string, std::int64_t> phase_ns_;
  std::vector<std::string> running_;  // innermost last, full names
  std::int64_t step_began_ns_ = 0;
  std::int64_t last_change_ns_ = 0;
};

}  // namespace mrb
