#include "base/phase_clock.hpp"

#include "support/catch.hpp"
#include "support/fake_clock.hpp"

using mrb::PhaseClock;
using mrb::test::FakeClock;

TEST_CASE("a phase inside another pauses it and is named after it", "[base]") {
  FakeClock clock;
  PhaseClock phases(clock);
  phases.begin_step();
  {
    const PhaseClock::Scope decode(phases, "decode");
    clock.advance_ns(10);
    {
      const PhaseClock::Scope dispatch(phases, "dispatch");
      clock.advance_ns(3);
    }
    clock.advance_ns(5);
  }
  clock.advance_ns(2);  // in no phase
  const auto times = phases.end_step();
  CHECK(times.phase_ns.at("decode") == 15);
  CHECK(times.phase_ns.at("decode.dispatch") == 3);
  CHECK(times.wall_ns == 20);
  CHECK(times.unaccounted_ns == 2);
}

TEST_CASE("a phase entered twice in a step adds up, and a new step starts from zero", "[base]") {
  FakeClock clock;
  PhaseClock phases(clock);
  for (int step = 0; step < 2; ++step) {
    phases.begin_step();
    for (int i = 0; i < 2; ++i) {
      const PhaseClock::Scope reward(phases, "reward");
      clock.advance_ns(4);
    }
    const auto times = phases.end_step();
    CHECK(times.phase_ns.at("reward") == 8);
    CHECK(times.unaccounted_ns == 0);
  }
}
