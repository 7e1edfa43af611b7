#include "tune/space.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::contains;

namespace {

TuneSpace space_of(std::vector<std::string> sets) {
  return make_tune_space(load_settings({.sets = std::move(sets), .purpose = Purpose::tune}), {});
}

std::vector<std::string> names(const TuneSpace& space) {
  std::vector<std::string> found;
  for (const TuneCandidate& candidate : space.candidates) found.push_back(candidate.name);
  return found;
}

}  // namespace

TEST_CASE("candidates are the product of the lists, the baseline first", "[tune]") {
  const TuneSpace space = space_of({"ranks=4", "transport=mpi", "dispatcher=alltoall,rank_dedup", "compute.threads=1,2",
                                    "baseline.dispatcher=rank_dedup", "baseline.compute.threads=2"});
  CHECK(names(space) == std::vector<std::string>{"rank_dedup threads=2", "alltoall threads=1", "alltoall threads=2",
                                                 "rank_dedup threads=1"});
  CHECK(space.candidates[0].changes == 0);
  CHECK(space.candidates[1].changes == 2);
  CHECK(space.candidates[2].changes == 1);
  CHECK(space.candidates[0].levels == std::vector<int>{1, 1});
  CHECK(space.candidates[1].levels == std::vector<int>{0, 0});
  CHECK(space.candidates[1].family == "alltoall mpi");
  CHECK(space.candidates[1].memory_bytes > 0);
  CHECK(space.experiments[1].config.dispatcher.name == "alltoall");
  CHECK(space.candidates[1].hash == space.experiments[1].id);
}

TEST_CASE("what cannot run is left out, with its reason", "[tune]") {
  const TuneSpace space = space_of({"ranks=4", "dispatcher=alltoall,rank_dedup", "transport=mpi,loopback"});
  CHECK(space.candidates.size() == 2);
  REQUIRE(space.excluded.size() == 2);
  CHECK_THAT(space_text(space),
             contains("excluded    2: transport 'loopback' stays within one process, and there are 4 ranks") &&
                 contains("4 combinations, 0 of them alike") && contains("2 can run here, 2 cannot"));
}

TEST_CASE("settings that do not fit each other exclude a candidate and are no fault", "[tune]") {
  // Eight experts over 6 ranks do not divide; over 4 that train and 2 that generate they do.
  const std::vector<std::string> sets = {"ranks=6", "transport=mpi", "model=tiny", "schedule.rollout_ranks=2"};
  std::vector<std::string> both = sets, colocated = sets;
  both.push_back("schedule=colocated,disaggregated");
  const TuneSpace space = space_of([&] {
    both.push_back("dispatcher=alltoall,rank_dedup");
    return both;
  }());
  CHECK(names(space) == std::vector<std::string>{"alltoall disaggregated", "rank_dedup disaggregated"});
  CHECK_THAT(space.excluded.at(0).reason, contains("8 experts do not divide over 6 ranks"));
  colocated.push_back("dispatcher=alltoall,rank_dedup");
  CHECK_THROWS_WITH(space_of(colocated), contains("8 experts do not divide over 6 ranks"));  // nothing fits
}

TEST_CASE("an axis that means nothing to a candidate has no level there, and makes no second candidate", "[tune]") {
  const TuneSpace space = space_of({"ranks=4", "transport=mpi,libfabric", "transport.provider=tcp,shm"});
  CHECK(names(space) == std::vector<std::string>{"mpi", "libfabric/tcp", "libfabric/shm"});
  CHECK(space.candidates[0].levels == std::vector<int>{0, -1});
  CHECK(space.candidates[2].levels == std::vector<int>{1, 1});
  CHECK_THAT(space_text(space), contains("4 combinations, 1 of them alike"));
}

TEST_CASE("a value that switches a field off has a level like any other", "[tune]") {
  const TuneSpace space = space_of({"transport=loopback", "grpo.reward_delay_ms=20,0"});
  REQUIRE(space.candidates.size() == 2);
  CHECK(space.candidates[0].levels == std::vector<int>{0});
  CHECK(space.candidates[1].levels == std::vector<int>{1});
}

TEST_CASE("an axis that changes what is computed is refused, and one that only rounds is not", "[tune]") {
  CHECK_THROWS_WITH(space_of({"grpo.prompts=8,16", "dispatcher=alltoall,rank_dedup"}),
                    contains("grpo.prompts (--set grpo.prompts)") && contains("fix: give these one value"));
  const TuneSpace space = space_of({"dispatcher.dispatch_dtype=f32,bf16", "dispatcher=alltoall,rank_dedup"});
  CHECK(space.candidates.size() == 4);
  CHECK(space.experiments[0].config.dispatcher.dispatch_dtype == "f32");
  CHECK(std::ranges::any_of(space.notes,
                            [](const std::string& note) { return note.find("round") != std::string::npos; }));
}

TEST_CASE("without a list there is nothing to choose from", "[tune]") {
  CHECK_THROWS_WITH(space_of({"dispatcher=alltoall"}),
                    contains("no setting has more than one value") && contains("fix: give lists"));
}
