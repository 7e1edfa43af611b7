// What several tests of the planner predict from.
#pragma once

#include "config/model_shape.hpp"
#include "planner/csv.hpp"
#include "planner/instance.hpp"

namespace mrb::test {

inline const std::string kConfigs = std::string(MRB_SOURCE_DIR) + "/configs";
inline const ModelShape kQwen = find_model_preset("qwen3-30b-a3b").value();
inline const Instance kP5{.name = "p5.48xlarge",
                          .gpus_per_node = 8,
                          .hbm_gbyte = 80,
                          .hbm_gbyte_per_s = 3350,
                          .bf16_tflop_per_s = 989,
                          .nvlink_gbyte_per_s = 450,
                          .nvlink_domain_gpus = 8,
                          .efa_gbyte_per_s = 50,
                          .latency_us = 35};
inline const Instance kP5en = [] {
  Instance instance = kP5;
  instance.name = "p5en.48xlarge";
  instance.hbm_gbyte = 141;
  instance.hbm_gbyte_per_s = 4800;
  return instance;
}();

// Every published row, of communication and of whole steps.
inline std::vector<CsvRow> published_rows() {
  std::vector<CsvRow> rows = read_csv(kConfigs + "/calibration/published_comm.csv");
  for (CsvRow& row : read_csv(kConfigs + "/calibration/published_rl.csv")) rows.push_back(std::move(row));
  return rows;
}

}  // namespace mrb::test
