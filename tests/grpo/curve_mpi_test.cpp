// That sampling, advantages, gradients, optimiser and dispatch backward are right together, over every transport.
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "compute/backend.hpp"
#include "grpo/trainer.hpp"
#include "mpi/mpi_ranks.hpp"
#include "support/catch.hpp"
#include "support/run_schedule.hpp"
#include "support/train.hpp"

using namespace mrb;

namespace {

Config small_config() {
  Config config;
  config.model.hidden = 32;
  config.model.heads = 2;
  config.model.kv_heads = 1;
  config.model.head_dim = 16;
  config.model.expert_ff = 32;
  config.grpo.prompts = 8;
  config.grpo.group_size = 4;
  return config;
}

struct Wire {
  std::string transport;
  std::string provider;
};

// All that this build has between processes.
std::vector<Wire> wires() {
  std::vector<Wire> all = {{"mpi", ""}};
  for (const RegistryLine& line : transport_lines()) {
    if (line.name == "libfabric" && line.needs.empty())
      all.insert(all.end(), {{"libfabric", "tcp"}, {"libfabric", "shm"}});
  }
  return all;
}

void check_close(double mine, double expected, int step, const char* what) {
  if (std::abs(mine - expected) <= 1e-4 * std::max(std::abs(expected), 0.01)) return;
  throw std::runtime_error(fmt::format("step {}: {} is {}, on one rank it is {}", step, what, mine, expected));
}

}  // namespace

TEST_CASE("four ranks get the curve of one, with every dispatcher over every transport", "[grpo][mpi]") {
  const Config config = small_config();
  const auto expected = test::train(config, 1, "reference", 10)[0];
  for (const Wire& wire : wires()) {
    for (const RegistryLine& line : dispatcher_lines()) {
      if (line.name == "reference") continue;  // it is for one rank
      INFO(wire.transport << " " << wire.provider << ", " << line.name);
      test::on_all_ranks([&](Bootstrap& bootstrap) {
        const auto transport = make_transport(wire.transport, bootstrap, {.provider = wire.provider});
        Channel channel(*transport, bootstrap, 30);
        const auto compute = make_compute("cpu", {});
        const auto tokens = make_dispatcher(line.name, channel, test::options_for_training(config, bootstrap.size()));
        const SteadyClock clock;
        PhaseClock phases(clock);
        Trainer trainer(config, {channel, *compute, *tokens, phases});
        for (const StepResult& step : expected) {
          const StepResult mine = trainer.run_step(step.step);
          check_close(mine.loss, step.loss, step.step, "the loss");
          check_close(mine.reward_mean, step.reward_mean, step.step, "the reward");
          check_close(mine.log_prob_mean, step.log_prob_mean, step.step, "the log-probability");
        }
        bootstrap.barrier();
      });
    }
  }
}

TEST_CASE("four ranks, two that generate and two that train, get the curve of one over every transport",
          "[grpo][mpi]") {
  Config config = small_config();
  const auto expected = test::train(config, 1, "reference", 5)[0];
  config.ranks = 4;
  config.schedule.rollout_ranks = 2;
  for (const Wire& wire : wires()) {
    for (const char* schedule : {"disaggregated", "async"}) {
      config.schedule.name = schedule;
      INFO(wire.transport << " " << wire.provider << ", " << schedule);
      test::on_all_ranks([&](Bootstrap& bootstrap) {
        const auto steps = test::run_schedule_on(bootstrap, config, wire.transport, {.provider = wire.provider}, 5);
        if (bootstrap.rank() >= 2) return;  // they have only times
        for (const StepResult& step : expected) {
          const StepResult& mine = steps.at(static_cast<std::size_t>(step.step)).result;
          if (mine.age_max > 1) throw std::runtime_error(fmt::format("step {}: age {}", step.step, mine.age_max));
          if (mine.log_prob_gap > 1e-5 && config.schedule.name == "disaggregated") {
            throw std::runtime_error(fmt::format("step {}: the weights differ by {}", step.step, mine.log_prob_gap));
          }
          if (config.schedule.name == "async") continue;  // it trains on older answers
          check_close(mine.loss, step.loss, step.step, "the loss");
          check_close(mine.reward_mean, step.reward_mean, step.step, "the reward");
        }
      });
    }
  }
}
