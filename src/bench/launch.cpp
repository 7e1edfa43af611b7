#include "bench/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <sstream>

#include "bench/dispatcher_options.hpp"
#include "cluster/agree.hpp"
#include "compute/backend.hpp"
#include "dispatch/check.hpp"
#include "grpo/trainer.hpp"
#include "transport/channel.hpp"

namespace mrb {

namespace {

constexpr std::int64_t kCheckBytesMax = 128 << 20;  // of rows: the reference holds those of all ranks

// About as many tokens as a micro-batch really has, as far as memory for the reference allows.
std::int64_t tokens_to_check(const Config& config) {
  const GrpoConfig& grpo = config.grpo;
  const std::int64_t step =
      std::int64_t{grpo.prompts} * grpo.group_size * (grpo.prompt_tokens + grpo.response_tokens_max);
  const std::int64_t row_bytes = std::int64_t{config.model.hidden} * 4 * config.model.top_k;
  return std::max<std::int64_t>(1, std::min({std::int64_t{grpo.micro_batch_tokens}, step / config.ranks,
                                             kCheckBytesMax / (row_bytes * config.ranks)}));
}

// What a rank tells rank 0 about a step: "wall unaccounted logical wire between", then a line "phase ns" for each.
std::string rank_record(const StepResult& step, const DispatchBytes& bytes) {
  std::string text = fmt::format("{} {} {} {} {}\n", step.times.wall_ns, step.times.unaccounted_ns, bytes.logical,
                                 bytes.wire, bytes.wire_between_nodes);
  for (const auto& [phase, ns] : step.times.phase_ns) text += fmt::format("{} {}\n", phase, ns);
  return text;
}

void add_rank(StepSample& sample, const std::string& record) {
  std::istringstream lines(record);
  std::int64_t wall_ns = 0, unaccounted_ns = 0;
  std::uint64_t logical = 0, wire = 0, between_nodes = 0;
  lines >> wall_ns >> unaccounted_ns >> logical >> wire >> between_nodes;
  sample.wall_ns = std::max(sample.wall_ns, wall_ns);
  sample.unaccounted_ratio_max =
      std::max(sample.unaccounted_ratio_max,
               std::abs(static_cast<double>(unaccounted_ns)) / static_cast<double>(std::max<std::int64_t>(1, wall_ns)));
  sample.dispatch_logical_bytes += logical;
  sample.dispatch_wire_bytes += wire;
  sample.dispatch_wire_bytes_between_nodes += between_nodes;
  std::string phase;
  for (std::int64_t ns = 0; lines >> phase >> ns;) {
    const auto [entry, is_new] = sample.phases.try_emplace(phase);
    PhaseSample& totals = entry->second;
    totals.ns_min = is_new ? ns : std::min(totals.ns_min, ns);
    totals.ns_max = std::max(totals.ns_max, ns);
    totals.ns_sum += ns;
  }
}

}  // namespace

struct Launch::Parts {
  Parts(const Experiment& given, const LaunchContext& launch_context)
      : experiment(given),
        context(launch_context),
        transport(make_transport(given.config.transport.name, context.bootstrap, transport_options(given.config))),
        channel(*transport, context.bootstrap, given.config.transport.timeout_s),
        phases(context.clock) {
    const Config& config = experiment.config;
    run_on_all(context.bootstrap, [&] {
      const int threads = config.compute.threads > 0 ? config.compute.threads : context.threads;
      compute = make_compute(config.compute.name, {config.compute.dtype, threads});
    });
    dispatcher = make_dispatcher(config.dispatcher.name, channel, options());
    // Weights, gradients and moments: here a rank may run out of memory. No rank waits for another in it.
    run_on_all(context.bootstrap, [&] {
      trainer =
          std::make_unique<Trainer>(config, TrainerParts{context.bootstrap, channel, *compute, *dispatcher, phases});
    });
  }

  DispatcherOptions options() {
    DispatcherOptions options = dispatcher_options(experiment.config, context.ranks_per_node);
    options.phases = &phases;
    return options;
  }

  StepSample gather(const StepResult& step, DispatchBytes before);

  const Experiment& experiment;
  LaunchContext context;
  std::unique_ptr<Transport> transport;
  Channel channel;
  PhaseClock phases;
  std::unique_ptr<ComputeBackend> compute;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<Trainer> trainer;
};

Launch::Launch(const Experiment& experiment, const LaunchContext& context)
    : parts_(std::make_unique<Parts>(experiment, context)) {}

void Launch::check() {
  const Config& config = parts_->experiment.config;
  check_dispatcher(*parts_->dispatcher, parts_->context.bootstrap, parts_->options(),
                   {.tokens_per_rank = tokens_to_check(config), .top_k = config.model.top_k, .seed = config.seed});
}

Launch::~Launch() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    parts_->context.bootstrap.barrier();  // nobody closes an endpoint that a peer still writes to
  } catch (const Error&) {
    // The rank that did not come is named by the next collective call.
  }
}

StepSample Launch::Parts::gather(const StepResult& step, DispatchBytes before) {
  const std::string mine = rank_record(step, dispatcher->bytes() - before);
  const auto records = context.bootstrap.all_gather(std::as_bytes(std::span(mine)));
  StepSample sample{.step = step.step,
                    .loss = step.loss,
                    .reward_mean = step.reward_mean,
                    .log_prob_mean = step.log_prob_mean,
                    .gradient_norm = step.gradient_norm,
                    .token_checksum = step.token_checksum,
                    .prompt_tokens = step.prompt_tokens,
                    .response_tokens = step.response_tokens,
                    .trained_tokens = step.trained_tokens};
  for (const auto& record : records) {
    add_rank(sample, std::string(reinterpret_cast<const char*>(record.data()), record.size()));
  }
  return sample;
}

LaunchSample Launch::run(int warmup_steps, int counted_steps, const std::function<bool()>& interrupted) {
  Parts& parts = *parts_;
  const bool is_first = parts.context.bootstrap.rank() == 0;
  LaunchSample launch{.transport = parts.channel.capabilities().name,
                      .provider = parts.channel.capabilities().provider};
  for (int step = 0; step < warmup_steps + counted_steps; ++step) {
    if (parts.context.bootstrap.max(interrupted() ? 1 : 0) > 0) break;
    const DispatchBytes before = parts.dispatcher->bytes();
    StepSample sample = parts.gather(parts.trainer->run_step(step), before);
    sample.warmup = step < warmup_steps;
    if (is_first) launch.steps.push_back(std::move(sample));
  }
  return launch;
}

}  // namespace mrb
