#include "report/table.hpp"

#include "report/made_up_run.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

std::string table_of(RunRecord record) {
  compare_results(record.results);
  return run_table(made_up_run(), record, "results/run");
}

}  // namespace

TEST_CASE("the table of a whole run", "[report]") {
  // Rates from the walls: 1000 tokens in 1, 0.5 and 2 s. Of a step's time on two ranks, 7/4 are decode and 1/4 idle.
  const std::string golden =
      R"(# moe-rl-bench 0.1.0 (1a2b3c4) · 2 ranks on 1 node (node-a) · seed 1
# model tiny · 16 prompts x 16 answers a step, colocated · cpu f32 · oneDNN 2.6.3
# 18 of 18 launches, each 1 warm-up and 3 counted steps, in 3 blocks of A B B A · status: ok
#
# variant       tokens/s   step ms    cv %  to the baseline, 95%        verdict              work  source, and what carried the bytes
  alltoall          1000   1000.00     0.0  -                           baseline             -     measured libfabric (shm)
  rank_dedup        2000    500.00     0.0  +100.0% [+100.0%, +100.0%]  faster               same  measured libfabric (shm)
  slow               500   2000.00     0.0  -50.0% [-50.0%, -50.0%]     slower               same  measured libfabric (shm)
# tokens/s: prompt and response tokens of 2 ranks over the wall time of the counted steps, median launch; to the baseline: mean ratio over blocks
#
# alltoall: colocated idle 12.5%; answers 25.0% at their longest, of weights 0.50 updates old, 1 at most
# rank_dedup: colocated idle 12.5%; answers 25.0% at their longest, of weights 0.50 updates old, 1 at most
# slow: colocated idle 12.5%; answers 25.0% at their longest, of weights 0.50 updates old, 1 at most
#
# phases of alltoall, a mean step
# phase                           slowest ms  fastest ms   share %
  decode                            1000.000     750.000      87.5
  idle                               250.000       0.000      12.5
  step                              1000.000
# dispatch and combine of a step, all ranks: 3.0 MiB logical (from the routing), 2.0 MiB wire (as handed to the transport); NIC: no interface counts what it carries
# phases and idle add up to the wall time within 1% on every rank, in all 6 steps
#
# phases of rank_dedup, a mean step
# phase                           slowest ms  fastest ms   share %
  decode                             500.000     375.000      87.5
  idle                               125.000       0.000      12.5
  step                               500.000
# dispatch and combine of a step, all ranks: 3.0 MiB logical (from the routing), 2.0 MiB wire (as handed to the transport); NIC: no interface counts what it carries
# phases and idle add up to the wall time within 1% on every rank, in all 6 steps
#
# use: rank_dedup: +100.0% [+100.0%, +100.0%] tokens/s against alltoall
#
# work equivalence: 3 of 3 variants have the baseline's losses step by step, within 1e-04 in f32 relative (largest difference 0.0e+00); 3 of 3 its very tokens
# results: results/run/result.json, tuned.yaml
)";
  CHECK(table_of(made_up_record()) == golden);
}

TEST_CASE("what the interfaces counted and whom others waited for stand with the bytes", "[report]") {
  RunRecord record = made_up_record();
  for (LaunchSample& launch : record.results[0].launches) {
    launch.traffic = {"tx_bytes of eth0", 3 << 20, 2 << 20, {100'000'000, 200'000'000, 700'000'000}};
  }
  RunInfo info = made_up_run();
  info.ranks.push_back({2, "node-a", "0-1", 1});
  CHECK_THAT(run_table(info, record, "results/x"),
             contains("NIC: 1.50 of the 12.0 MiB that whole launches handed over (tx_bytes of eth0)") &&
                 contains("# last to arrive: rank 2 for 70% of the 6 s that ranks waited for the slower half of others "
                          "(of 3 alike: 33%)"));
  // Two ranks of one host: the hosts are told apart, and of two each is the one that the other waits for.
  info.ranks[2].host = "node-b";
  info.nodes.push_back({.host = "node-b"});
  CHECK_THAT(run_table(info, record, "results/x"), !contains("last to arrive"));
  for (LaunchSample& launch : record.results[0].launches) launch.traffic = {"tx_bytes of eth0", 0, 0, {}};
  CHECK_THAT(run_table(info, record, "results/x"), contains("NIC: nothing had to leave its host"));
}

TEST_CASE("variants without numbers stand in comments, with why", "[report]") {
  RunRecord record = made_up_record();
  record.results[1] = made_up_result("rank_dedup", false, {500, 500}, 0.6);
  record.results[2].status = ResultStatus::failed;
  record.results[2].reason = "no provider 'efa' here\n  fix: use shm";
  record.results.push_back(made_up_result("skipped one", false, {}));
  record.results.back().status = ResultStatus::skipped;
  record.results.back().reason = "too large";
  record.results.push_back(made_up_result("late", false, {}));
  record.results.back().status = ResultStatus::pending;
  const std::string table = table_of(record);
  CHECK_THAT(table, contains("# rank_dedup   no number: it does other work than the baseline, by 1.7e-01 "
                             "where 1e-04 is allowed\n"));
  CHECK_THAT(table, contains("# slow         failed: no provider 'efa' here\n"));
  CHECK_THAT(table, contains("# skipped one  skipped: too large\n"));
  CHECK_THAT(table, contains("# late         not measured\n"));
  CHECK_THAT(table, contains("# use: alltoall, the baseline: no variant was shown to be faster\n"));
  CHECK_THAT(table, contains("# work equivalence: 1 of 2 variants have"));
}

TEST_CASE("without a baseline rates stand alone", "[report]") {
  RunRecord record = made_up_record();
  record.results[0].status = ResultStatus::failed;
  record.results[0].reason = "it broke";
  const std::string table = table_of(record);
  CHECK_THAT(table,
             contains("  rank_dedup        2000    500.00     0.0  -                           baseline has none"));
  CHECK_THAT(table, contains("# work equivalence: no baseline to compare with\n"));
  CHECK_THAT(table, contains("# results: results/run/result.json\n"));
}

TEST_CASE("steps whose time does not add up are marked", "[report]") {
  RunRecord record = made_up_record();
  record.results[0].launches[0].steps[1].unaccounted_ratio_max = 0.011;
  record.results[0].launches[1].steps[1].unaccounted_ratio_max = 0.01;  // just within
  record.results[0].launches[2].steps[0].unaccounted_ratio_max = 0.5;   // of the warm-up
  CHECK_THAT(table_of(record),
             contains("# 1 of 6 steps are marked: phases and idle miss the wall time by more than 1%\n"));
}

TEST_CASE("notes and the status of a run cut short stand in the header", "[report]") {
  RunRecord record = made_up_record();
  record.status = "interrupted";
  record.notes = {"the time limit of 5 s ended the run after 1 of 3 blocks"};
  CHECK_THAT(table_of(record),
             contains("status: interrupted\n# note: the time limit of 5 s ended the run after 1 of 3 blocks\n"));
}
