// What an EC2 instance of a type must have, for the checks.
#pragma once

#include <span>
#include <string_view>

namespace mrb {

enum class DeviceMemory { by_host, by_device };  // whether EFA must reach GPU memory without the host

struct NodeType {
  std::string_view name;
  std::string_view gpu;  // a part of NVML's name
  int gpus = 0;
  int efa_devices = 0;
  double gbit_per_device = 0;
  int other_rdma_devices = 0;  // that the host has beside EFA, visible in /sys of every pod
  DeviceMemory device_memory = DeviceMemory::by_host;
};

std::span<const NodeType> node_types();

// Null when the type is not in the table.
const NodeType* find_node_type(std::string_view name);

}  // namespace mrb
