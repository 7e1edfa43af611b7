// Some steps of training on ranks that are threads, over loopback.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compute/backend.hpp"
#include "dispatch/dispatcher.hpp"
#include "grpo/trainer.hpp"
#include "support/threaded_ranks.hpp"
#include "transport/transport.hpp"

namespace mrb::test {

// With nodes of two ranks where that goes.
inline DispatcherOptions options_for_training(const Config& config, int ranks) {
  const GrpoConfig& grpo = config.grpo;
  return {.hidden = config.model.hidden,
          .placement = {config.model.experts, ranks, ranks % 2 == 0 ? 2 : 1},
          .top_k = config.model.top_k,
          .tokens_max = std::int64_t{grpo.prompts} * grpo.group_size * (grpo.prompt_tokens + grpo.response_tokens_max),
          .prefix_rows = 16};
}

// Every rank's StepResults: [rank][step].
inline std::vector<std::vector<StepResult>> train(const Config& config, int ranks, const std::string& dispatcher,
                                                  int steps, const Clock& clock = SteadyClock()) {
  std::vector<std::vector<StepResult>> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    Channel channel(*transport, bootstrap, 60);
    const auto compute = make_compute("cpu", {config.compute.dtype, 1});
    const auto tokens = make_dispatcher(dispatcher, channel, options_for_training(config, ranks));
    PhaseClock phases(clock);
    Trainer trainer(config, {channel, *compute, *tokens, phases});
    for (int step = 0; step < steps; ++step) {
      results[static_cast<std::size_t>(bootstrap.rank())].push_back(trainer.run_step(step));
    }
    bootstrap.barrier();  // nobody frees memory that a peer may still write to
  });
  return results;
}

}  // namespace mrb::test
