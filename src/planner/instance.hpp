// What a node of one instance type has, and what it costs: read from configs/instances/*.yaml.
#pragma once

#include <string>
#include <vector>

namespace mrb {

struct Instance {
  std::string name;
  std::string gpu;
  int gpus_per_node = 0;
  double hbm_gbyte = 0;           // per GPU, 1e9 bytes
  double hbm_gbyte_per_s = 0;     // per GPU
  double bf16_tflop_per_s = 0;    // per GPU, dense
  double nvlink_gbyte_per_s = 0;  // per GPU, one direction
  int nvlink_domain_gpus = 1;     // GPUs that reach each other without the network
  double efa_gbyte_per_s = 0;     // per GPU, one direction, line rate
  double latency_us = 0;          // of a message between nodes
  double usd_per_hour = 0;        // a node; 0: no price is published
  std::string price_source;       // where and when
};

// One file. Unknown keys, missing figures and values that are no positive numbers are reported together as
// Error(config).
Instance read_instance(const std::string& path);

// All *.yaml in `folder`, by name. Throws Error(config) when there is none.
std::vector<Instance> read_instances(const std::string& folder);

// Throws Error(config) that lists what there is.
const Instance& find_instance(const std::vector<Instance>&, const std::string& name);

}  // namespace mrb
