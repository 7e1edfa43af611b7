#include "planner/search.hpp"

#include "planner/answers.hpp"
#include "planner/inputs.hpp"
#include "planner/simulated_steps.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

const Calibration& calibration() {
  static const Calibration all = calibrate(read_published(published_rows(), read_instances(kConfigs + "/instances")));
  return all;
}

Workload qwen() {
  return {.model = find_model_preset("qwen3-30b-a3b").value(),
          .lengths = {.mean_tokens = 2048, .cv = .75, .max_tokens = 8192}};
}

SearchSpace space_of(std::vector<int> nodes) {
  return {.instances = {find_instance(read_instances(kConfigs + "/instances"), "p5.48xlarge")},
          .nodes = std::move(nodes),
          .schedules = {Schedule::colocated, Schedule::disaggregated, Schedule::one_step_off, Schedule::async},
          .stalenesses = {1},
          .backends = calibration().backends,
          .micro_sequences = {1, 4}};
}

}  // namespace

TEST_CASE("searching each side alone finds what trying every whole step finds", "[planner]") {
  const Workload workload = qwen();
  const StepModel model(workload, calibration());
  SearchSpace space = space_of({3});
  space.schedules = {Schedule::one_step_off};
  const SearchResult found = search(space, model);
  REQUIRE(found.candidates.size() == 1);
  double best_s = 1e300;
  for (int rollout_nodes = 1; rollout_nodes < 3; ++rollout_nodes) {
    const int train_gpus = (3 - rollout_nodes) * 8;
    for (int engine = 1; engine <= 16; engine *= 2) {
      for (int tensor = 1; tensor <= 8; tensor *= 2) {
        for (int pipeline = 1; pipeline <= 16; pipeline *= 2) {
          for (int expert = 1; expert <= 16; expert *= 2) {
            for (const std::string& backend : space.backends) {
              for (const double micro : space.micro_sequences) {
                for (const Recompute recompute : {Recompute::none, Recompute::full}) {
                  if (train_gpus % (tensor * pipeline) != 0 || train_gpus % (expert * pipeline) != 0) continue;
                  if (rollout_nodes * 8 % engine != 0) continue;
                  const auto cost = model.cost(
                      {.instance = &space.instances[0],
                       .nodes = 3,
                       .rollout_nodes = rollout_nodes,
                       .train_nodes = 3 - rollout_nodes,
                       .schedule = Schedule::one_step_off,
                       .engine_gpus = engine,
                       .train = {{.gpus = train_gpus, .tensor = tensor, .pipeline = pipeline, .expert = expert},
                                 backend,
                                 micro,
                                 recompute}},
                      nullptr);
                  if (cost) best_s = std::min(best_s, cost->step_s);
                }
              }
            }
          }
        }
      }
    }
  }
  CHECK(found.candidates[0].cost.step_s == Approx(best_s));
}

TEST_CASE("a model that fits nowhere says what it lacks", "[planner]") {
  Workload workload = qwen();
  workload.model = find_model_preset("deepseek-v3").value();
  const SearchSpace here = space_of({1});
  const SearchResult found = search(here, StepModel(workload, calibration()));
  CHECK(found.candidates.empty());
  CHECK(found.refused.contains("training needs more memory than a GPU of p5.48xlarge has"));
  CHECK(found.refused.contains("an engine's weights leave no memory for one answer on p5.48xlarge"));
}

TEST_CASE("no recommendation needs more memory than there is, or a kernel that does not exist", "[planner]") {
  const Workload workload = qwen();
  const SearchSpace here = space_of({2, 5});
  for (const Candidate& one : search(here, StepModel(workload, calibration())).candidates) {
    CHECK(one.cost.memory.total_bytes() < one.point.instance->hbm_gbyte * 1e9);
    CHECK(one.cost.rollout.slots >= 1);
    CHECK(one.point.train.split.data() * one.point.train.micro_sequences <= workload.answers());
  }
}

TEST_CASE("the front goes from cheap and slow to dear and fast", "[planner]") {
  const Workload workload = qwen();
  const StepModel model(workload, calibration());
  const SearchSpace here = space_of({2, 4, 8});
  const auto found = search(here, model).candidates;
  const auto front = pareto(found);
  REQUIRE_FALSE(front.empty());
  CHECK(front.front().cost.usd_per_million_tokens() == cheapest(found)->cost.usd_per_million_tokens());
  CHECK(front.back().cost.step_s == fastest(found).cost.step_s);
  for (std::size_t i = 1; i < front.size(); ++i) CHECK(front[i].cost.step_s < front[i - 1].cost.step_s);
}

TEST_CASE("a knob says what it changes, and a dead one says so", "[planner]") {
  const Workload workload = qwen();
  const StepModel model(workload, calibration());
  SearchSpace space = space_of({1});
  space.instances = {find_instance(read_instances(kConfigs + "/instances"), "p5en.48xlarge")};
  space.schedules = {Schedule::colocated};
  const SearchResult found = search(space, model);
  REQUIRE(found.candidates.size() == 1);
  const Candidate& best = found.candidates[0];
  int dead = 0;
  for (const Sensitivity& line : sensitivities(best, workload, calibration())) {
    INFO(line.knob);
    if (line.knob == "mean answer length") CHECK(line.more_ratio.value() > 1.02);
    if (line.knob == "MFU (operations)") CHECK(line.more_ratio.value() < 1);
    if (line.knob.starts_with("EFA")) CHECK(line.is_dead());  // one node: nothing is sent over it
    dead += line.is_dead() ? 1 : 0;
  }
  CHECK(dead < 6);
}

TEST_CASE("drawn steps agree with the closed form where lengths do not vary", "[planner]") {
  Workload workload = qwen();
  workload.lengths.cv = 0;
  const StepModel model(workload, calibration());
  const SearchSpace here = space_of({4});
  for (const Candidate& one : search(here, model).candidates) {
    INFO(schedule_name(one.point.schedule));
    const SimulatedSteps simulated = simulate_steps(one, workload, 20, 1);
    CHECK(simulated.step_s_mean == Approx(one.cost.step_s).epsilon(.1));
    CHECK(simulated.staleness_max <= std::max(one.point.staleness, 1));
  }
}

TEST_CASE("a fit never says that something is faster than its peak", "[planner]") {
  const auto& terms = cost_terms("train_step");
  for (std::size_t i = 0; i < terms.size(); ++i) CHECK(calibration().train.coefficients[i] >= terms[i].least);
  CHECK(calibration().backends.size() == 3);
}
