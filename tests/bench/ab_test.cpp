#include "bench/ab.hpp"

#include <string>

#include "support/catch.hpp"
#include "support/fake_clock.hpp"

using namespace mrb;

namespace {

struct WatchedAb {
  AbOutcome outcome;
  std::string order;  // "b0a0a1b1": side and pair of each launch
  std::vector<int> looked;
};

WatchedAb run(const AbPlan& plan, int decided_after, int interrupted_after = 1000, std::int64_t launch_ns = 1) {
  const test::FakeClock clock(launch_ns);
  WatchedAb watched;
  int launches = 0;
  watched.outcome = run_ab(plan, clock,
                           {.launch =
                                [&](Side side, int pair) {
                                  ++launches;
                                  watched.order += side_text(side)[0] + std::to_string(pair);
                                },
                            .decided =
                                [&](int pairs) {
                                  watched.looked.push_back(pairs);
                                  return pairs >= decided_after;
                                },
                            .agree_max = [](double mine) { return mine; },
                            .interrupted = [&] { return launches >= interrupted_after; }});
  return watched;
}

}  // namespace

TEST_CASE("each block is A B B A or B A A B, and the n-th launches are a pair", "[bench]") {
  const WatchedAb watched = run({.looks = {40}}, 1000);
  CHECK(watched.outcome.pairs == 40);
  CHECK(watched.outcome.end == AbEnd::undecided);
  int begins_before = 0;
  for (int block = 0; block < 20; ++block) {
    const auto order = ab_block(1, block);
    CHECK(order[0] != order[1]);
    CHECK(order[1] == order[2]);
    CHECK(order[3] == order[0]);
    begins_before += order[0] == Side::before ? 1 : 0;
  }
  CHECK(begins_before > 3);  // drawn: neither side always has the block's warm end
  CHECK(begins_before < 17);
  const std::string first = watched.order.substr(0, 8);
  CHECK((first == "b0a0a1b1" || first == "a0b0b1a1"));
}

TEST_CASE("it ends at the first look that decides, and looks nowhere else", "[bench]") {
  const WatchedAb watched = run({.looks = {8, 16, 24}}, 10);
  CHECK(watched.looked == std::vector<int>{8, 16});
  CHECK(watched.outcome.pairs == 16);
  CHECK(watched.outcome.end == AbEnd::decided);
}

TEST_CASE("no block of pairs begins after the time limit", "[bench]") {
  // The clock moves a second whenever it is read: once at the start, once before each block.
  const WatchedAb watched = run({.looks = {100}, .time_limit_s = 3.5}, 1000, 1000, 1'000'000'000);
  CHECK(watched.outcome.end == AbEnd::time_limit);
  CHECK(watched.outcome.pairs == 6);
}

TEST_CASE("an interruption ends it within the block", "[bench]") {
  const WatchedAb watched = run({.looks = {8}}, 1000, 3);
  CHECK(watched.outcome.end == AbEnd::interrupted);
  CHECK(watched.outcome.pairs == 0);
  CHECK(watched.order.size() == 6);
}
