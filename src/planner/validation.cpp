#include "planner/validation.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace mrb {

namespace {

constexpr double kTieRatio = 0.06;  // single runs: smaller differences are ties

struct Predicted {
  const Observation* observation;
  double seconds;
  double error_ratio() const { return std::abs(seconds / observation->sample.measured_s - 1); }
};

std::vector<Predicted> predict_group(const std::vector<const Observation*>& group, FitChoice choice) {
  std::set<std::string> campaigns;
  for (const Observation* one : group) campaigns.insert(one->campaign);
  std::vector<Predicted> predicted;
  for (const std::string& left_out : campaigns) {
    std::vector<FitSample> others;
    for (const Observation* one : group) {
      if (one->campaign != left_out) others.push_back(one->sample);
    }
    Fit fit;
    for (const CostTerm& term : cost_terms(group.front()->operation)) fit.coefficients.push_back(term.unfitted);
    if (choice == FitChoice::by_campaign && !others.empty()) {
      fit = fit_samples(others, least_coefficients(group.front()->operation));
    }
    for (const Observation* one : group) {
      if (one->campaign == left_out) predicted.push_back({one, fit.predict_s(one->sample)});
    }
  }
  return predicted;
}

ValidationLine summarize(std::string operation, std::string regime, std::vector<Predicted> predicted) {
  std::sort(predicted.begin(), predicted.end(),
            [](const Predicted& a, const Predicted& b) { return a.error_ratio() < b.error_ratio(); });
  ValidationLine line{.operation = std::move(operation), .regime = std::move(regime)};
  line.rows = static_cast<int>(predicted.size());
  for (const Predicted& one : predicted) line.mean_error_ratio += one.error_ratio() / line.rows;
  line.median_error_ratio = predicted[predicted.size() / 2].error_ratio();
  line.worst_error_ratio = predicted.back().error_ratio();
  line.worst_id = predicted.back().observation->id;
  return line;
}

void count_pairs(const std::vector<Predicted>& predicted, Validation& validation) {
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    for (std::size_t j = i + 1; j < predicted.size(); ++j) {
      const Observation &a = *predicted[i].observation, &b = *predicted[j].observation;
      const double measured = a.sample.measured_s / b.sample.measured_s;
      if (a.cell != b.cell || std::abs(measured - 1) < kTieRatio) continue;
      ++validation.pairs;
      if ((measured > 1) == (predicted[i].seconds > predicted[j].seconds)) ++validation.pairs_in_order;
    }
  }
}

}  // namespace

Validation validate(const Published& published, FitChoice choice) {
  // Dispatch and combine of a regime are fitted together: the same wires, with a factor for each.
  std::map<std::pair<bool, std::string>, std::vector<const Observation*>> groups;
  for (const Observation& one : published.observations) {
    const bool is_exchange = one.operation == "dispatch" || one.operation == "combine";
    groups[{is_exchange, is_exchange ? one.regime : one.operation}].push_back(&one);
  }
  Validation validation{.left_out = published.left_out};
  for (const auto& [name, group] : groups) {
    const auto predicted = predict_group(group, choice);
    std::map<std::pair<std::string, std::string>, std::vector<Predicted>> lines;
    for (const Predicted& one : predicted) lines[{one.observation->operation, one.observation->regime}].push_back(one);
    for (auto& [key, of_line] : lines) validation.lines.push_back(summarize(key.first, key.second, of_line));
    if (group.front()->operation == "train_step") count_pairs(predicted, validation);
  }
  return validation;
}

}  // namespace mrb
