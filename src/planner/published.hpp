// What others have measured, as samples that the model can be fitted to and judged by.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/model_shape.hpp"
#include "planner/csv.hpp"
#include "planner/fit.hpp"
#include "planner/instance.hpp"
#include "planner/moe_traffic.hpp"

namespace mrb {

struct Observation {
  std::string id;
  std::string campaign;   // the id up to its last dash: rows of one table share their run
  std::string operation;  // collective, dispatch, combine, train_step or weight_sync
  std::string regime;     // latency: 256 tokens a rank at most; bandwidth; all
  std::string backend;
  std::string cell;  // what else must be equal for two backends to be compared
  FitSample sample;
};

// One term of an operation's time. Without a fit only physics counts: line rates, peaks and latency, but neither
// congestion that grows with nodes nor what software adds.
struct CostTerm {
  std::string name;
  double unfitted;   // the coefficient without a fit
  double least = 0;  // a fit stays above: nothing computes faster than its peak or sends faster than its line
};

// The terms of `operation`, in the order of FitSample::physical_s.
const std::vector<CostTerm>& cost_terms(const std::string& operation);
std::vector<double> least_coefficients(const std::string& operation);

// Rows that the model has an operation for, on instances that are known; the others are counted in `left_out`.
//
// Tables have either the columns of configs/calibration/published_comm.csv (a figure by operation and instance) or those
// of published_rl.csv (a figure by system, of which weight syncs are read: their time hardly depends on the machine).
struct Published {
  std::vector<Observation> observations;
  int left_out = 0;
};

// The preset of the model that a text names as its makers do ("Qwen3-30B-A3B 48L"), or nothing.
std::optional<ModelShape> published_model(const std::string& text);

// How a backend sends in training, and the factors of its time there, by backend, instance type and micro-batch.
WirePattern training_pattern(const std::string& backend);
std::vector<std::string> training_effects(const std::string& backend, const Instance&, double micro_sequences);

// Physical times of a weight sync, in the order of cost_terms("weight_sync").
std::vector<double> weight_sync_terms(const ModelShape&, double bytes_per_weight);

Published read_published(const std::vector<CsvRow>&, const std::vector<Instance>&);

}  // namespace mrb
