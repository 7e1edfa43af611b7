#include "planner/answers.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace mrb {

namespace {

struct Knob {
  const char* name;
  std::function<void(Workload&, Instance&, double factor)> turn;
};

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> all = {
      {"mean answer length", [](Workload& w, Instance&, double f) { w.lengths.mean_tokens *= f; }},
      {"cv of lengths", [](Workload& w, Instance&, double f) { w.lengths.cv *= f; }},
      {"longest answer", [](Workload& w, Instance&, double f) { w.lengths.max_tokens *= f; }},
      {"prompt length", [](Workload& w, Instance&, double f) { w.prompt_tokens *= f; }},
      {"prompts", [](Workload& w, Instance&, double f) { w.prompts = static_cast<int>(std::lround(w.prompts * f)); }},
      {"MFU (operations)", [](Workload&, Instance& i, double f) { i.bf16_tflop_per_s *= f; }},
      {"memory bandwidth", [](Workload&, Instance& i, double f) { i.hbm_gbyte_per_s *= f; }},
      {"EFA bandwidth", [](Workload&, Instance& i, double f) { i.efa_gbyte_per_s *= f; }},
      {"NVLink bandwidth", [](Workload&, Instance& i, double f) { i.nvlink_gbyte_per_s *= f; }},
      {"EFA latency", [](Workload&, Instance& i, double f) { i.latency_us *= f; }},
      {"expert imbalance", [](Workload& w, Instance&, double f) { w.imbalance = std::max(1.0, w.imbalance * f); }}};
  return all;
}

bool has_price(const Candidate& candidate) {
  return candidate.cost.usd_per_hour > 0;
}

}  // namespace

const Candidate& fastest(const std::vector<Candidate>& candidates) {
  return *std::ranges::min_element(candidates, {}, [](const Candidate& c) { return c.cost.step_s; });
}

const Candidate* cheapest(const std::vector<Candidate>& candidates) {
  const Candidate* best = nullptr;
  for (const Candidate& one : candidates) {
    const bool is_cheaper = best == nullptr || one.cost.usd_per_million_tokens() < best->cost.usd_per_million_tokens();
    if (has_price(one) && is_cheaper) best = &one;
  }
  return best;
}

std::vector<Candidate> pareto(const std::vector<Candidate>& candidates) {
  std::vector<Candidate> sorted;
  std::ranges::copy_if(candidates, std::back_inserter(sorted), has_price);
  std::ranges::stable_sort(sorted, {}, [](const Candidate& c) { return c.cost.usd_per_million_tokens(); });
  std::vector<Candidate> front;
  for (const Candidate& one : sorted) {
    if (front.empty() || one.cost.step_s < front.back().cost.step_s) front.push_back(one);
  }
  return front;
}

std::vector<Sensitivity> sensitivities(const Candidate& candidate, const Workload& workload,
                                       const Calibration& calibration) {
  std::vector<Sensitivity> lines;
  for (const Knob& knob : knobs()) {
    const auto turned = [&](double factor) -> std::optional<double> {
      Workload changed = workload;
      Instance instance = *candidate.point.instance;
      knob.turn(changed, instance, factor);
      PlanPoint point = candidate.point;
      point.instance = &instance;
      const auto cost = StepModel(changed, calibration).cost(point, nullptr);
      if (!cost) return std::nullopt;
      return cost->step_s / candidate.cost.step_s;
    };
    lines.push_back({knob.name, turned(0.8), turned(1.2)});
  }
  return lines;
}

std::vector<Marginal> marginals(const Candidate& candidate, const SearchSpace& space, const StepModel& model) {
  const PlanPoint& now = candidate.point;
  std::vector<Marginal> lines;
  const auto with = [&](const char* side, int rollout_nodes, int train_nodes) {
    SearchResult scratch;
    const bool is_shared = now.schedule == Schedule::colocated;
    const auto train = best_training(space, model, *now.instance, train_nodes, is_shared, scratch);
    const auto rollout = best_rollout(model, *now.instance, rollout_nodes, is_shared, scratch);
    std::optional<double> ratio;
    if (train && rollout) {
      PlanPoint point = now;
      point.nodes = is_shared ? train_nodes : rollout_nodes + train_nodes;
      ratio = std::min(1.0, model.compose(point, train->second, rollout->second).step_s / candidate.cost.step_s);
    }
    lines.push_back({side, ratio});
  };
  if (now.schedule == Schedule::colocated) {
    with("both sides, which share it", now.nodes + 1, now.nodes + 1);
  } else {
    with("rollout", now.rollout_nodes + 1, now.train_nodes);
    with("training", now.rollout_nodes, now.train_nodes + 1);
  }
  return lines;
}

std::vector<WinnerCell> winners(const SearchSpace& space, const StepModel& model) {
  std::vector<WinnerCell> cells;
  for (const Instance& instance : space.instances) {
    for (const int nodes : space.nodes) {
      for (const double micro : space.micro_sequences) {
        std::vector<std::pair<double, std::string>> by_time;
        for (const std::string& backend : space.backends) {
          SearchSpace one = space;
          one.backends = {backend};
          one.micro_sequences = {micro};
          SearchResult scratch;
          if (const auto best = best_training(one, model, instance, nodes, false, scratch)) {
            by_time.emplace_back(best->second.seconds, backend);
          }
        }
        if (by_time.size() < 2) continue;
        std::ranges::sort(by_time);
        cells.push_back({.instance = instance.name,
                         .nodes = nodes,
                         .micro_sequences = micro,
                         .backend = by_time[0].second,
                         .next = by_time[1].second,
                         .lead_ratio = by_time[1].first / by_time[0].first - 1});
      }
    }
  }
  return cells;
}

}  // namespace mrb
