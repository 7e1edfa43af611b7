// Dispatch, combine and the transports alone, by size: what `micro` measures.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/launch.hpp"
#include "config/settings.hpp"
#include "stats/comparison.hpp"

namespace mrb {

enum class MicroOperation {
  dispatch,   // [route,] dispatch
  combine,    // combine of a route that is there
  pair,       // [route,] dispatch, combine
  transport,  // puts between pairs of ranks: there and back, and one way in a stream
  alltoallv   // every rank puts to every other, lengths known
};

bool is_of_dispatch(MicroOperation);
std::string micro_operation_text(MicroOperation);

enum class RouteUse {
  fresh,  // the route, its counts and its layout are in the measured time
  cached  // they are not, as in a backward pass
};

struct MicroSpec {
  MicroOperation operation = MicroOperation::pair;

  // Ascending. dispatch, combine, pair: of one rank's tokens in the wire type of dispatch, made whole tokens, at least
  // one. transport: of a put. alltoallv: from each rank to each peer.
  std::vector<std::uint64_t> sizes;

  int launches = 5;  // each makes transport, buffers and dispatcher anew; a launch is the sample
  int warmup = 5;    // iterations of each size that are not counted
  int iterations = 20;
  int repeats = 1;    // transport, alltoallv: operations in a row in one iteration, whose mean is taken
  int window = 64;    // transport: puts in a row of the stream before all of them must have left
  bool check = true;  // compare what every counted iteration gave with the reference, outside of the measured time
  RouteUse routes = RouteUse::fresh;
  std::string routing = "uniform";  // see routing_source.hpp; another one in every iteration
  double imbalance = 0;             // alltoallv: lengths are drawn from size x [1 - imbalance, 1 + imbalance]
};

// One way to do it.
struct MicroVariant {
  std::string label;
  Config config;
  bool is_baseline = false;
  std::string reason;  // to skip it; empty when it can run
};

// One launch at one size, as rank 0 gathered it. Bytes are those of one iteration, on the mean.
struct MicroSample {
  int launch = 0;
  std::vector<std::int64_t> slowest_ns;  // by iteration: of the slowest rank
  std::vector<std::int64_t> fastest_ns;  // and of the fastest; waiting hides in whatever a rank blocks in
  std::vector<std::int64_t> cast_ns;     // the part of it in which rows were rounded, of the rank that took longest

  // pair: the period of as many pairs as there are iterations, one after the other without a barrier. transport: the
  // time of one put in the stream. Of the slowest rank; 0: there is none.
  double period_ns = 0;

  double logical_bytes_max = 0;             // of the rank that has most: copies that leave it, from the routing
  double wire_bytes_max = 0;                // of the rank that puts most
  double wire_bytes_between_nodes_max = 0;  // of the rank that puts most to other nodes
  double nic_bytes_max = 0;                 // of the node that sends most, by its own counters, barriers included
  std::uint64_t wrong = 0;                  // rows, tokens or messages that were not what they should be
};

struct MicroResult {
  MicroVariant variant;
  ResultStatus status = ResultStatus::pending;
  std::string reason;                             // failed or skipped: why
  std::string transport, provider, nic_source;    // what really carried the bytes, and what counted them
  std::vector<std::vector<MicroSample>> samples;  // [size][launch]
};

struct MicroRecord {
  MicroSpec spec;
  std::vector<std::int64_t> tokens;  // by size: of one rank; empty for transport and alltoallv
  std::vector<MicroResult> results;
  int launches_done = 0;
  std::string status = "running";  // then: ok, partial, failed, interrupted
  std::vector<std::string> notes;
};

// The variants of these settings, those that cannot run with the reason.
std::vector<MicroVariant> micro_variants(const Settings&, const MicroSpec&, const LaunchContext&,
                                         std::uint64_t memory_bytes_per_rank);

struct MicroHooks {
  std::function<bool()> interrupted;
  std::function<void(const MicroRecord&)> save;
  std::function<void(const std::string&)> progress;
};

// Collective. `notes`: what a reader of the record must know. Launches all variants `launches` times, in turn forwards and backwards, so that drift hits all alike. The
// samples are complete on rank 0. A variant that cannot be set up is a failed result; a rank that does not answer is
// Error(timeout).
MicroRecord run_micro(const MicroSpec&, const std::vector<MicroVariant>&, std::vector<std::string> notes,
                      const LaunchContext&, const MicroHooks&);

// 0, or the code of the worst that happened: wrong results, all failed, some failed.
int exit_code_of(const MicroRecord&);

// Over launches: the median of each launch's own figure.
struct MicroFigures {
  double p50_us = 0, p95_us = 0, p99_us = 0;    // of the slowest rank
  double launch_min_us = 0, launch_max_us = 0;  // the smallest and largest p50 of a launch
  double fastest_us = 0;                        // p50 of the fastest rank
  double spread_ratio = 0;                      // slowest over fastest
  double cast_us = 0;
  double period_us = 0;
  double logical_bytes = 0, wire_bytes = 0, wire_bytes_between_nodes = 0, nic_bytes = 0;
  std::uint64_t wrong = 0;  // over all launches
};
MicroFigures micro_figures(const std::vector<MicroSample>&);

// How much less time a variant takes than the baseline (2: half as long), launch by launch: of the period for pairs, of
// the median iteration otherwise.
RatioEstimate micro_ratio(const std::vector<MicroSample>& variant, const std::vector<MicroSample>& baseline);

}  // namespace mrb
