// Results with numbers that can be worked out by hand.
#pragma once

#include <string>
#include <vector>

#include "bench/comparison.hpp"
#include "bench/experiment.hpp"

namespace mrb::test {

// One warm-up step that must not count, and one counted step of 1000 tokens (200 of prompts) that takes `wall_ms`.
inline LaunchSample made_up_launch(int block, std::int64_t wall_ms, double loss = 0.5) {
  const StepSample warmup{.step = 0,
                          .warmup = true,
                          .wall_ns = 77'000'000'000,
                          .loss = 1.0,
                          .log_prob_mean = -4.0,
                          .token_checksum = 11,
                          .prompt_tokens = 200,
                          .response_tokens = 800};
  StepSample counted{.step = 1,
                     .wall_ns = wall_ms * 1'000'000,
                     .loss = loss,
                     .log_prob_mean = -3.0,
                     .token_checksum = 12,
                     .prompt_tokens = 200,
                     .response_tokens = 800,
                     .trained_tokens = 800,
                     .age_mean = 0.5,
                     .age_max = 1,
                     .full_ratio = 0.25,
                     .dispatch_logical_bytes = 3 << 20,
                     .dispatch_wire_bytes = 2 << 20};
  // Two ranks: the slowest was busy all the time, the fastest waited for a quarter of it.
  const std::int64_t wall_ns = counted.wall_ns;
  counted.phases["decode"] = {.ns_max = wall_ns, .ns_min = wall_ns * 3 / 4, .ns_sum = wall_ns * 7 / 4};
  counted.phases["idle"] = {.ns_max = wall_ns / 4, .ns_min = 0, .ns_sum = wall_ns / 4};
  counted.roles["colocated"] = {.ranks = 2, .wall_ns = 2 * wall_ns, .idle_ns = wall_ns / 4};
  return {.block = block, .transport = "libfabric", .provider = "shm", .steps = {warmup, counted}};
}

// A variant of workload "w" that has run: each pair of times is one block.
inline Result made_up_result(const std::string& dispatcher, bool is_baseline, const std::vector<std::int64_t>& wall_ms,
                             double loss = 0.5) {
  Result result{
      .experiment = {.id = dispatcher + "-id", .workload_id = "w", .label = dispatcher, .is_baseline = is_baseline}};
  result.experiment.config.ranks = 2;
  result.experiment.config.dispatcher.name = dispatcher;
  result.experiment.config.model = *find_model_preset("tiny");
  result.status = ResultStatus::done;
  for (std::size_t i = 0; i < wall_ms.size(); ++i) {
    result.launches.push_back(made_up_launch(static_cast<int>(i / 2), wall_ms[i], loss));
    result.launches.back().index = static_cast<int>(i);
  }
  return result;
}

// The baseline at 1000 tokens a second, one variant twice as fast in each of three blocks, one half as fast.
inline RunRecord made_up_record() {
  RunRecord record{.results = {made_up_result("alltoall", true, {1000, 1000, 1000, 1000, 1000, 1000}),
                               made_up_result("rank_dedup", false, {500, 500, 500, 500, 500, 500}),
                               made_up_result("slow", false, {2000, 2000, 2000, 2000, 2000, 2000})},
                   .launches_done = 18,
                   .launches_planned = 18,
                   .blocks_done = 3,
                   .status = "ok"};
  compare_results(record.results);
  return record;
}

}  // namespace mrb::test
