#include "planner/search.hpp"

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "planner/backend_limits.hpp"

namespace mrb {

namespace {

constexpr double kMemoryRatioMax = 0.92;  // until a run here says otherwise
constexpr double kSleepingGbyte = 5;      // that a sleeping engine or trainer keeps (slime: 3 to 5)
constexpr double kHostGbytePerS = 25;     // one direction of PCIe 5 to a GPU, as achieved
constexpr int kEngineMax = 64;

void count(StepModel::Refusals* refused, const std::string& reason) {
  if (refused != nullptr) ++(*refused)[reason];
}

double hbm_for_one(const Instance& instance, bool is_shared) {
  return instance.hbm_gbyte - (is_shared ? kSleepingGbyte : 0);
}

}  // namespace

StepModel::StepModel(const Workload& workload, const Calibration& calibration)
    : workload_(workload),
      calibration_(calibration),
      lengths_(length_profile(workload.lengths, workload.answers())),
      sync_s_(calibration.sync.predict_s({.physical_s = weight_sync_terms(workload.model, 2)})) {}

std::optional<StepModel::TrainSide> StepModel::train_side(const Instance& instance, const TrainChoice& choice,
                                                          bool is_shared, Refusals* refused) const {
  const Parallelism& split = choice.split;
  if (const std::string reason = why_not(choice.backend, workload_.model, instance, split.expert); !reason.empty()) {
    count(refused, reason);
    return std::nullopt;
  }
  const double tokens = workload_.prompt_tokens + lengths_.mean_tokens;
  if (split.data() * choice.micro_sequences > workload_.answers()) {
    count(refused, "fewer answers than data ranks x micro-batch");
    return std::nullopt;
  }
  TrainSide side;
  side.memory =
      train_memory(workload_.model, split, choice.micro_sequences * tokens, choice.recompute, workload_.imbalance);
  if (side.memory.total_bytes() > kMemoryRatioMax * hbm_for_one(instance, is_shared) * kGbyte) {
    count(refused, "training needs more memory than a GPU of " + instance.name + " has");
    return std::nullopt;
  }
  const TrainStep step{.split = split,
                       .sequences = static_cast<double>(workload_.answers()),
                       .tokens_per_sequence = tokens,
                       .micro_sequences = choice.micro_sequences,
                       .pattern = training_pattern(choice.backend),
                       .recompute = choice.recompute,
                       .imbalance = workload_.imbalance};
  side.forward_s = workload_.forward_passes * calibration_.train_s(forward_terms(workload_.model, step, instance),
                                                                   choice.backend, instance, choice.micro_sequences);
  side.seconds = side.forward_s + calibration_.train_s(train_terms(workload_.model, step, instance), choice.backend,
                                                       instance, choice.micro_sequences);
  return side;
}

std::optional<RolloutCost> StepModel::rollout_side(const Instance& instance, int gpus, int engine_gpus, bool is_shared,
                                                   Refusals* refused) const {
  Instance left = instance;
  left.hbm_gbyte = hbm_for_one(instance, is_shared);
  auto cost = rollout_cost(
      workload_.model,
      {.answers = workload_.answers(), .group_size = workload_.group_size, .prompt_tokens = workload_.prompt_tokens},
      lengths_, left, gpus, engine_gpus);
  if (!cost) count(refused, "an engine's weights leave no memory for one answer on " + instance.name);
  return cost;
}

StepCost StepModel::compose(const PlanPoint& point, const TrainSide& train, const RolloutCost& rollout) const {
  StepCost cost{.forward_s = train.forward_s, .rollout = rollout, .memory = train.memory};
  // Off to the host before rollout, and back before training.
  const double switch_s = 2 * (train.memory.static_bytes()) / (kHostGbytePerS * kGbyte);
  cost.phases = {.rollout_s = rollout.seconds,
                 .rollout_sustained_s = rollout.sustained_s,
                 .longest_answer_s = rollout.longest_s,
                 .train_s = train.seconds,
                 .sync_s = sync_s_,
                 .switch_s = point.schedule == Schedule::colocated ? switch_s : 0};
  cost.step_s = mrb::step_s(point.schedule, point.staleness, cost.phases);
  cost.trained_tokens = workload_.answers() * (workload_.prompt_tokens + lengths_.mean_tokens);
  cost.usd_per_hour = point.nodes * point.instance->usd_per_hour;
  return cost;
}

std::optional<StepCost> StepModel::cost(const PlanPoint& point, Refusals* refused) const {
  const bool is_shared = point.schedule == Schedule::colocated;
  const auto train = train_side(*point.instance, point.train, is_shared, refused);
  if (!train) return std::nullopt;
  const auto rollout = rollout_side(*point.instance, point.rollout_nodes * point.instance->gpus_per_node,
                                    point.engine_gpus, is_shared, refused);
  if (!rollout) return std::nullopt;
  return compose(point, *train, *rollout);
}

std::optional<std::pair<TrainChoice, StepModel::TrainSide>> best_training(const SearchSpace& space,
                                                                          const StepModel& model,
                                                                          const Instance& instance, int nodes,
                                                                          bool is_shared, SearchResult& result) {
  std::optional<std::pair<TrainChoice, StepModel::TrainSide>> best;
  const int gpus = nodes * instance.gpus_per_node;
  const int layers = model.workload().model.layers;
  for (const int tensor : space.tensors) {
    if (tensor > instance.nvlink_domain_gpus) continue;
    for (const int pipeline : space.pipelines) {
      if (pipeline > layers || gpus % (tensor * pipeline) != 0) continue;
      for (const int expert : space.experts) {
        if (gpus % (expert * pipeline) != 0) continue;
        for (const std::string& backend : space.backends) {
          for (const double micro : space.micro_sequences) {
            for (const Recompute recompute : {Recompute::none, Recompute::full}) {
              const TrainChoice choice{
                  .split = {.gpus = gpus, .tensor = tensor, .pipeline = pipeline, .expert = expert},
                  .backend = backend,
                  .micro_sequences = micro,
                  .recompute = recompute};
              ++result.priced;
              const auto side = model.train_side(instance, choice, is_shared, &result.refused);
              if (side && (!best || side->seconds < best->second.seconds)) best = {choice, *side};
            }
          }
        }
      }
    }
  }
  return best;
}

std::optional<std::pair<int, RolloutCost>> best_rollout(const StepModel& model, const Instance& instance, int nodes,
                                                        bool is_shared, SearchResult& result) {
  std::optional<std::pair<int, RolloutCost>> best;
  const int gpus = nodes * instance.gpus_per_node;
  for (int engine = 1; engine <= std::min(gpus, kEngineMax); engine *= 2) {
    if (gpus % engine != 0) continue;
    ++result.priced;
    const auto cost = model.rollout_side(instance, gpus, engine, is_shared, &result.refused);
    if (cost && (!best || cost->seconds < best->second.seconds)) best = {engine, *cost};
  }
  return best;
}

SearchResult search(const SearchSpace& space, const StepModel& model) {
  SearchResult result;
  const auto is_in = [&](Schedule schedule) { return std::ranges::count(space.schedules, schedule) > 0; };
  const bool is_split = is_in(Schedule::disaggregated) || is_in(Schedule::one_step_off) || is_in(Schedule::async);
  for (const Instance& instance : space.instances) {
    using Train = decltype(best_training(space, model, instance, 1, true, result));
    using Rollout = decltype(best_rollout(model, instance, 1, true, result));
    std::map<int, Train> trains;
    std::map<int, Rollout> rollouts;
    for (const int nodes : space.nodes) {
      const auto offer = [&](PlanPoint point, const Train& train, const Rollout& rollout,
                             std::optional<Candidate>& best) {
        if (!train || !rollout) return;
        point.engine_gpus = rollout->first;
        point.train = train->first;
        ++result.priced;
        const StepCost cost = model.compose(point, train->second, rollout->second);
        if (!best || cost.step_s < best->cost.step_s) best = Candidate{point, cost};
      };
      if (is_in(Schedule::colocated)) {
        std::optional<Candidate> best;
        offer({.instance = &instance, .nodes = nodes, .rollout_nodes = nodes, .train_nodes = nodes},
              best_training(space, model, instance, nodes, true, result),
              best_rollout(model, instance, nodes, true, result), best);
        if (best) result.candidates.push_back(*best);
      }
      if (!is_split) continue;
      for (int some = 1; some < nodes; ++some) {
        if (!trains.contains(some)) trains[some] = best_training(space, model, instance, some, false, result);
        if (!rollouts.contains(some)) rollouts[some] = best_rollout(model, instance, some, false, result);
      }
      for (const Schedule schedule : space.schedules) {
        if (schedule == Schedule::colocated) continue;
        const std::vector<int> stalenesses = schedule == Schedule::async ? space.stalenesses : std::vector<int>{0};
        for (const int staleness : stalenesses) {
          std::optional<Candidate> best;
          for (int some = 1; some < nodes; ++some) {
            offer({.instance = &instance,
                   .nodes = nodes,
                   .rollout_nodes = some,
                   .train_nodes = nodes - some,
                   .schedule = schedule,
                   .staleness = staleness},
                  trains[nodes - some], rollouts[some], best);
          }
          if (best) result.candidates.push_back(*best);
        }
      }
    }
  }
  return result;
}

}  // namespace mrb
