// How fast the planner answers, on one core and in processor time:
//
//   plan_benchmark CONFIGS_FOLDER
//
// whole steps priced a second (every one distinct: memory check, skew and both sides worked out anew, nothing cached),
// events simulated a second with their memory, a step of 4,096 GPUs and 8,192 answers, the cost against the number of
// nodes, and the all-to-all of 1,024 ranks.
#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdio>
#include <ctime>

#include "base/error.hpp"
#include "planner/link.hpp"
#include "planner/simulated_steps.hpp"

namespace {

using namespace mrb;

double processor_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Whole steps, each a point that no other repeats.
void price_steps(const StepModel& model, const Instance& instance, const std::vector<std::string>& backends) {
  std::int64_t priced = 0, fitting = 0;
  double sum_s = 0;
  const double begin_s = processor_s();
  for (int nodes = 2; nodes <= 32; ++nodes) {
    for (int rollout_nodes = 1; rollout_nodes < nodes; ++rollout_nodes) {
      for (const int engine : {1, 2, 4, 8}) {
        for (const int tensor : {1, 2, 4, 8}) {
          for (const int expert : {1, 2, 4, 8}) {
            for (const std::string& backend : backends) {
              for (const double micro : {1.0, 2.0, 4.0}) {
                const PlanPoint point{
                    .instance = &instance,
                    .nodes = nodes,
                    .rollout_nodes = rollout_nodes,
                    .train_nodes = nodes - rollout_nodes,
                    .schedule = Schedule::one_step_off,
                    .engine_gpus = engine,
                    .train = {{.gpus = (nodes - rollout_nodes) * 8, .tensor = tensor, .expert = expert},
                              backend,
                              micro,
                              Recompute::full}};
                ++priced;
                if (const auto cost = model.cost(point, nullptr)) {
                  ++fitting;
                  sum_s += cost->step_s;
                }
              }
            }
          }
        }
      }
    }
  }
  const double seconds = processor_s() - begin_s;
  fmt::print("whole steps priced: {} distinct, {} fit (mean step {:.1f} s), {:.2f} s: {:.0f} a second; cache hits: 0\n",
             priced, fitting, sum_s / static_cast<double>(fitting), seconds, static_cast<double>(priced) / seconds);
}

void simulate_events(int answers, int slots, int steps) {
  const Pipeline pipeline{.schedule = Schedule::async,
                          .steps = steps,
                          .samples_per_step = answers,
                          .slots = slots,
                          .train_s = 100,
                          .sync_s = 1,
                          .staleness_max = 1,
                          .sample_s = [](std::int64_t i) { return 20 + static_cast<double>(i * 7919 % 97); }};
  const double before_mib = peak_mib(), begin_s = processor_s();
  const PipelineResult result = simulate(pipeline);
  const double seconds = processor_s() - begin_s;
  const double mib = peak_mib() - before_mib;
  fmt::print("events simulated: {} in {:.2f} s: {:.2f} million a second; {:.1f} MiB more at the peak for {} live\n",
             result.events, seconds, static_cast<double>(result.events) / seconds / 1e6, mib, slots);
}

void step_by_size(const Workload& workload, const Calibration& calibration, const Instance& instance) {
  for (const int nodes : {8, 32, 128, 512}) {
    SearchSpace space{.instances = {instance},
                      .nodes = {nodes},
                      .schedules = {Schedule::colocated},
                      .backends = {"nccl-alltoall"},
                      .micro_sequences = {1}};
    const StepModel model(workload, calibration);
    const double begin_s = processor_s();
    const SearchResult found = search(space, model);
    if (found.candidates.empty()) {
      fmt::print("{:>5} GPUs: nothing fits\n", nodes * 8);
      continue;
    }
    const double searched_s = processor_s() - begin_s;
    const SimulatedSteps simulated = simulate_steps(found.candidates[0], workload, 1, 1);
    fmt::print(
        "{:>5} GPUs, {} answers: {} points searched in {:.4f} s, steps simulated in {:.3f} s ({} events), {:.0f} MiB "
        "peak\n",
        nodes * 8, workload.answers(), found.priced, searched_s, processor_s() - begin_s - searched_s, simulated.events,
        peak_mib());
  }
}

void alltoall() {
  constexpr int repeats = 1000000;
  double sum_s = 0;
  const double begin_s = processor_s();
  for (int i = 0; i < repeats; ++i) {
    sum_s += alltoall_s(1024, 64.0 * 1048576 + i % 2, {.byte_per_s = 50.0 * (1 << 30), .latency_s = 1e-6});
  }
  fmt::print("all-to-all of 1,024 ranks, 64 MiB each: {:.4f} ms predicted, {:.0f} ns of work\n", sum_s / repeats * 1e3,
             (processor_s() - begin_s) / repeats * 1e9);
}

int run(const std::string& configs) {
  const auto instances = read_instances(configs + "/instances");
  std::vector<CsvRow> rows = read_csv(configs + "/calibration/published_comm.csv");
  for (CsvRow& row : read_csv(configs + "/calibration/published_rl.csv")) rows.push_back(std::move(row));
  const Calibration calibration = calibrate(read_published(rows, instances));
  Workload workload{.model = find_model_preset("qwen3-30b-a3b").value(), .prompts = 512, .group_size = 16};
  const Instance& instance = find_instance(instances, "p5en.48xlarge");
  price_steps(StepModel(workload, calibration), instance, calibration.backends);
  simulate_events(8192, 4096, 400);
  simulate_events(1 << 20, 1 << 20, 3);  // its memory can be seen
  step_by_size(workload, calibration, instance);
  alltoall();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: plan_benchmark CONFIGS_FOLDER\n", stderr);
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const Error& error) {
    std::fputs(fmt::format("error: {}\n", error.what()).c_str(), stderr);
    return error.exit_code();
  }
}
