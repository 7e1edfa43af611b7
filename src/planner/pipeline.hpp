// A discrete-event simulation of reinforcement learning: rollouts, training and weight syncs that wait for each other.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace mrb {

// colocated and disaggregated: one after the other; one_step_off: the next batch is generated while this one is trained,
// with a sync before each; async: answers start whenever a slot is free and the answer will not be too old when trained.
enum class Schedule { colocated, disaggregated, one_step_off, async };

Schedule find_schedule(std::string_view name);  // throws Error(config) that lists them
std::string_view schedule_name(Schedule);

struct Pipeline {
  Schedule schedule = Schedule::colocated;
  int steps = 1;
  int samples_per_step = 1;
  int slots = 1;  // answers generated at once
  double train_s = 0;
  double sync_s = 0;      // nothing is generated or trained meanwhile
  double switch_s = 0;    // colocated: to rollout and back
  int staleness_max = 0;  // async: an answer is trained at most so many steps after the weights that began it
  std::function<double(std::int64_t sample)> sample_s;  // time of each answer, at the pace of 1
  std::function<double(int running)> pace;              // seconds for a second's work of each answer; none: always 1
};

struct PipelineResult {
  double total_s = 0;
  std::vector<double> step_end_s;
  double trainer_busy_s = 0;
  double staleness_mean = 0;
  int staleness_max = 0;
  std::int64_t events = 0;
};

PipelineResult simulate(const Pipeline&);

}  // namespace mrb
