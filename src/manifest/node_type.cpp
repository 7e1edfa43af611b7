#include "manifest/node_type.hpp"

#include <algorithm>
#include <cstdlib>

#include "manifest/yaml_node.hpp"

namespace mrb {

extern const char* const instance_files;  // by mrb_embed()

namespace {

std::vector<NodeType> read_node_types() {
  std::vector<NodeType> types;
  for (const YamlNode& file : parse_yaml("configs/instances", instance_files)) {
    const auto number = [&](const char* key) { return std::strtod(file[key].text.c_str(), nullptr); };
    types.push_back({.name = file["name"].text,
                     .gpus = static_cast<int>(number("gpus_per_node")),
                     .efa_devices = static_cast<int>(number("efa_devices")),
                     .vcpus = static_cast<int>(number("vcpus")),
                     .memory_gib = number("memory_gib"),
                     .usd_per_hour = number("usd_per_hour"),
                     .price_source = file["price_source"].text});
  }
  return types;
}

}  // namespace

double NodeType::allocatable_cpus() const {
  const double kept = 0.06 * std::min(vcpus, 1) + 0.01 * std::clamp(vcpus - 1, 0, 1) +
                      0.005 * std::clamp(vcpus - 2, 0, 2) + 0.0025 * std::max(vcpus - 4, 0);
  return vcpus - kept;
}

const std::vector<NodeType>& node_types() {
  static const std::vector<NodeType> types = read_node_types();
  return types;
}

const NodeType* find_node_type(const std::string& name) {
  for (const NodeType& type : node_types()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace mrb
