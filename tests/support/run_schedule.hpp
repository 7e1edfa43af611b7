// Some steps of a schedule on ranks that are threads, over loopback, or over chaos on top of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compute/backend.hpp"
#include "config/roles.hpp"
#include "dispatch/dispatcher.hpp"
#include "grpo/schedule.hpp"
#include "support/threaded_ranks.hpp"
#include "support/train.hpp"
#include "transport/transport.hpp"

namespace mrb::test {

// This rank's steps, over the transport `name`; the bootstrap is of all ranks.
inline std::vector<RankStep> run_schedule_on(Bootstrap& bootstrap, const Config& config, const std::string& transport,
                                             const TransportOptions& options, int steps) {
  const Roles roles = roles_of(config);
  const bool trains = roles.trains(bootstrap.rank());
  const int color = trains ? 0 : 1 + roles.rollout_rank(bootstrap.rank()) / roles.rollout_expert_parallel;
  const auto part = bootstrap.split(color);
  const auto world_transport = make_transport(transport, bootstrap, options);
  Channel world(*world_transport, bootstrap, 60);
  const auto group_transport = make_transport(transport, *part, options);
  Channel group(*group_transport, *part, 60);
  const auto compute = make_compute("cpu", {config.compute.dtype, 1});
  const auto tokens = make_dispatcher(config.dispatcher.name, group, options_for_training(config, part->size()));
  const SteadyClock clock;
  PhaseClock phases(clock);
  const auto schedule = make_schedule(config, {world, group, *compute, *tokens, phases});
  auto done = schedule->run(steps, [] { return false; });
  world.drain(bootstrap);
  bootstrap.barrier();  // nobody frees memory that a peer may still write to
  return done;
}

// Every rank's steps: [rank][step].
inline std::vector<std::vector<RankStep>> run_schedule(const Config& config, int steps,
                                                       const TransportOptions& options = {}) {
  std::vector<std::vector<RankStep>> results(static_cast<std::size_t>(config.ranks));
  run_ranks(config.ranks, [&](Bootstrap& bootstrap) {
    results[static_cast<std::size_t>(bootstrap.rank())] =
        run_schedule_on(bootstrap, config, "loopback", options, steps);
  });
  return results;
}

}  // namespace mrb::test
