#include "planner/simulated_steps.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mrb {

namespace {

// Steps until slots and versions are as they stay.
constexpr int kFirstSteps = 5;

// One engine: answers beyond its slots begin as slots become free, the last ones drain.
double engine_s(std::vector<double>& lengths, const RolloutCost& cost, double prompt_tokens) {
  const auto slots = static_cast<std::size_t>(cost.slots_by_memory);
  double seconds = 0;
  std::span<double> last(lengths);
  if (lengths.size() > slots) {
    const std::size_t before = lengths.size() - slots;
    seconds = std::accumulate(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(before), 0.0) /
              cost.slots * cost.token_s;
    last = last.subspan(before);
  }
  std::sort(last.begin(), last.end());
  return seconds + drain_s(last, 1, [&](double sequences, double generated) {
           return cost.decode.step_s(sequences, prompt_tokens + generated);
         });
}

// Each batch as one answer of the pipeline: the time of its slowest engine.
double batch_s(const std::vector<double>& lengths, std::size_t engines, const RolloutCost& cost, double prompt_tokens) {
  double slowest_s = 0;
  for (std::size_t engine = 0; engine < engines; ++engine) {
    std::vector<double> mine;
    for (std::size_t i = engine; i < lengths.size(); i += engines) mine.push_back(lengths[i]);
    slowest_s = std::max(slowest_s, engine_s(mine, cost, prompt_tokens));
  }
  return cost.prefill_s + slowest_s;
}

}  // namespace

SimulatedSteps simulate_steps(const Candidate& candidate, const Workload& workload, int steps, std::uint64_t seed) {
  const PlanPoint& point = candidate.point;
  const StepCost& cost = candidate.cost;
  const int engines = point.rollout_nodes * point.instance->gpus_per_node / point.engine_gpus;
  const int all_steps = steps + kFirstSteps, answers = workload.answers();
  const std::vector<double> lengths = sample_lengths(workload.lengths, all_steps * answers, workload.group_size, seed);
  Pipeline pipeline{.schedule = point.schedule,
                    .steps = all_steps,
                    .train_s = cost.phases.train_s,
                    .sync_s = cost.phases.sync_s,
                    .switch_s = cost.phases.switch_s,
                    .staleness_max = point.staleness};
  std::vector<double> batches, pace;
  if (point.schedule == Schedule::async) {
    pipeline.samples_per_step = answers;
    pipeline.slots = std::max(1, static_cast<int>(cost.rollout.slots) * engines);
    const double context = workload.prompt_tokens + cost.rollout.resident_tokens;
    pipeline.sample_s = [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; };
    // By number of answers, so that the simulation looks it up.
    for (int running = 0; running <= pipeline.slots; ++running) {
      pace.push_back(cost.rollout.decode.step_s(std::max(1.0, static_cast<double>(running) / engines), context));
    }
    pipeline.pace = [&](int running) { return pace[static_cast<std::size_t>(running)]; };
  } else {
    for (int step = 0; step < all_steps; ++step) {
      const auto begin = lengths.begin() + static_cast<std::ptrdiff_t>(step) * answers;
      batches.push_back(
          batch_s({begin, begin + answers}, static_cast<std::size_t>(engines), cost.rollout, workload.prompt_tokens));
    }
    pipeline.sample_s = [&](std::int64_t i) { return batches[static_cast<std::size_t>(i)]; };
  }
  const PipelineResult result = simulate(pipeline);
  std::vector<double> took;
  for (std::size_t i = kFirstSteps; i < result.step_end_s.size(); ++i) {
    took.push_back(result.step_end_s[i] - result.step_end_s[i - 1]);
  }
  std::sort(took.begin(), took.end());
  const double mean = std::accumulate(took.begin(), took.end(), 0.0) / static_cast<double>(took.size());
  return {.steps = steps,
          .step_s_mean = mean,
          .step_s_p50 = took[took.size() / 2],
          .step_s_p95 = took[took.size() * 95 / 100],
          .staleness_mean = result.staleness_mean,
          .staleness_max = result.staleness_max,
          .train_idle_ratio = 1 - cost.phases.train_s / mean,
          .events = result.events};
}

}  // namespace mrb
