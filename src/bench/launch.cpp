#include "bench/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "bench/dispatcher_options.hpp"
#include "bench/traffic_meter.hpp"
#include "cluster/agree.hpp"
#include "compute/backend.hpp"
#include "config/roles.hpp"
#include "dispatch/check.hpp"
#include "grpo/schedule.hpp"
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

// What a rank tells rank 0 about its steps. For each, a line "wall unaccounted logical wire between answers weights", a
// line "phase ns" for each phase, and a line "-".
std::string rank_record(const std::vector<RankStep>& steps) {
  std::string text;
  for (const RankStep& step : steps) {
    const PhaseClock::StepTimes& times = step.result.times;
    text += fmt::format("{} {} {} {} {} {} {}\n", times.wall_ns, times.unaccounted_ns, step.dispatch.logical,
                        step.dispatch.wire, step.dispatch.wire_between_nodes, step.answer_bytes, step.weight_bytes);
    for (const auto& [phase, ns] : times.phase_ns) text += fmt::format("{} {}\n", phase, ns);
    text += "-\n";
  }
  return text;
}

void add_rank(StepSample& sample, const std::string& role, bool trains, std::istream& record) {
  std::int64_t wall_ns = 0, unaccounted_ns = 0;
  std::uint64_t logical = 0, wire = 0, between_nodes = 0, answers = 0, weights = 0;
  record >> wall_ns >> unaccounted_ns >> logical >> wire >> between_nodes >> answers >> weights;
  if (trains) sample.wall_ns = std::max(sample.wall_ns, wall_ns);
  sample.unaccounted_ratio_max =
      std::max(sample.unaccounted_ratio_max,
               std::abs(static_cast<double>(unaccounted_ns)) / static_cast<double>(std::max<std::int64_t>(1, wall_ns)));
  sample.dispatch_logical_bytes += logical;
  sample.dispatch_wire_bytes += wire;
  sample.dispatch_wire_bytes_between_nodes += between_nodes;
  sample.answer_bytes += answers;
  sample.weight_bytes += weights;
  RoleSample& totals_of_role = sample.roles[role];
  ++totals_of_role.ranks;
  totals_of_role.wall_ns += wall_ns;
  std::string phase;
  for (std::int64_t ns = 0; record >> phase && phase != "-" && record >> ns;) {
    if (is_idle_phase(phase)) totals_of_role.idle_ns += ns;
    const auto [entry, is_new] = sample.phases.try_emplace(phase);
    PhaseSample& totals = entry->second;
    totals.ns_min = is_new ? ns : std::min(totals.ns_min, ns);
    totals.ns_max = std::max(totals.ns_max, ns);
    totals.ns_sum += ns;
  }
}

StepSample sample_of(const StepResult& step) {
  return {.step = step.step,
          .loss = step.loss,
          .reward_mean = step.reward_mean,
          .log_prob_mean = step.log_prob_mean,
          .gradient_norm = step.gradient_norm,
          .token_checksum = step.token_checksum,
          .prompt_tokens = step.prompt_tokens,
          .response_tokens = step.response_tokens,
          .trained_tokens = step.trained_tokens,
          .age_mean = step.age_mean,
          .age_max = step.age_max,
          .full_ratio = step.full_ratio};
}

}  // namespace

struct Launch::Parts {
  Parts(const Experiment& given, const LaunchContext& launch_context)
      : experiment(given),
        context(launch_context),
        roles(roles_of(given.config)),
        trains(roles.trains(context.bootstrap.rank())),
        side(side_config(given.config, trains, launch_context.ranks_per_node)),
        transport(open(context.bootstrap)),
        world(*transport, context.bootstrap, given.config.transport.timeout_s),
        phases(context.clock) {
    const Config& config = experiment.config;
    if (roles.apart) {
      group_bootstrap = context.bootstrap.split(group_of(context.bootstrap.rank()));
      group_transport = open(*group_bootstrap);
      own_group.emplace(*group_transport, *group_bootstrap, config.transport.timeout_s);
    }
    run_on_all(context.bootstrap, [&] {
      const int threads = config.compute.threads > 0 ? config.compute.threads : context.threads;
      compute = make_compute(config.compute.name, {config.compute.dtype, threads});
    });
    dispatcher = make_dispatcher(side.dispatcher.name, group(), options());
    // Weights, gradients and moments: here a rank may run out of memory.
    schedule = make_schedule(config, {world, group(), *compute, *dispatcher, phases});
  }

  std::unique_ptr<Transport> open(Bootstrap& bootstrap) const {
    return make_transport(experiment.config.transport.name, bootstrap, transport_options(experiment.config));
  }

  DispatcherOptions options() {
    DispatcherOptions options = dispatcher_options(side, context.ranks_per_node);
    options.phases = &phases;
    return options;
  }

  // Which ranks share their experts: one number for each such group.
  int group_of(int rank) const {
    return roles.trains(rank) ? 0 : 1 + roles.rollout_rank(rank) / roles.rollout_expert_parallel;
  }

  // Of this rank, each with the ranks that it leads to.
  std::vector<TrafficMeter::Part> channels() {
    std::vector<TrafficMeter::Part> channels = {{world, {}}};
    if (own_group) channels.push_back({*own_group, {}});
    const int mine = context.bootstrap.rank();
    for (int rank = 0; rank < context.bootstrap.size(); ++rank) {
      channels.front().ranks.push_back(rank);
      if (own_group && group_of(rank) == group_of(mine)) channels.back().ranks.push_back(rank);
    }
    return channels;
  }

  // Of those that share this rank's experts.
  Channel& group() { return own_group ? *own_group : world; }
  Bootstrap& group_ranks() { return group_bootstrap ? *group_bootstrap : context.bootstrap; }

  const Experiment& experiment;
  LaunchContext context;
  Roles roles;
  bool trains;
  Config side;  // as this rank's group sees it
  std::unique_ptr<Transport> transport;
  Channel world;
  std::unique_ptr<Bootstrap> group_bootstrap;  // when the sides are apart
  std::unique_ptr<Transport> group_transport;
  std::optional<Channel> own_group;
  PhaseClock phases;
  std::unique_ptr<ComputeBackend> compute;
  std::unique_ptr<Dispatcher> dispatcher;
  std::unique_ptr<Schedule> schedule;
};

Launch::Launch(const Experiment& experiment, const LaunchContext& context)
    : parts_(std::make_unique<Parts>(experiment, context)) {}

void Launch::check() {
  Parts& parts = *parts_;
  std::exception_ptr wrong;
  try {
    check_dispatcher(
        *parts.dispatcher, parts.group_ranks(), parts.options(),
        {.tokens_per_rank = tokens_to_check(parts.side), .top_k = parts.side.model.top_k, .seed = parts.side.seed});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::wrong_result) throw;
    wrong = std::current_exception();
  }
  run_on_all(parts.context.bootstrap, [&] {  // the other side may have found nothing wrong
    if (wrong) std::rethrow_exception(wrong);
  });
}

Launch::~Launch() {
  if (std::uncaught_exceptions() > 0) return;
  try {
    parts_->context.bootstrap.barrier();  // nobody closes an endpoint that a peer still writes to
  } catch (const Error&) {
    // The rank that did not come is named by the next collective call.
  }
}

LaunchSample Launch::run(int warmup_steps, int counted_steps, const std::function<bool()>& interrupted) {
  Parts& parts = *parts_;
  Bootstrap& bootstrap = parts.context.bootstrap;
  LaunchSample launch{.transport = parts.world.capabilities().name, .provider = parts.world.capabilities().provider};
  TrafficMeter meter(bootstrap, parts.world.capabilities(), parts.channels());
  const std::vector<RankStep> mine = parts.schedule->run(warmup_steps + counted_steps, interrupted);
  parts.world.drain(bootstrap);
  launch.traffic = meter.stop();
  const std::string record = rank_record(mine);
  const auto records = bootstrap.all_gather(std::as_bytes(std::span(record)));
  // A rank that generates may not have heard of the last step when it was told to stop.
  const auto steps = static_cast<std::size_t>(-bootstrap.max(-static_cast<std::int64_t>(mine.size())));
  if (bootstrap.rank() != 0) return launch;
  for (std::size_t step = 0; step < steps; ++step) launch.steps.push_back(sample_of(mine[step].result));
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const bool trains = parts.roles.trains(static_cast<int>(rank));
    const std::string role = !parts.roles.apart ? "colocated" : trains ? "train" : "rollout";
    std::istringstream lines(std::string(reinterpret_cast<const char*>(records[rank].data()), records[rank].size()));
    for (StepSample& sample : launch.steps) add_rank(sample, role, trains, lines);
  }
  for (StepSample& sample : launch.steps) sample.warmup = sample.step < warmup_steps;
  return launch;
}

}  // namespace mrb
