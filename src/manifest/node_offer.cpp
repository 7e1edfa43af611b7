#include "manifest/node_offer.hpp"

#include <algorithm>
#include <cstdlib>

#include "manifest/yaml_node.hpp"

namespace mrb {

extern const char* const instance_files;  // by mrb_embed()

namespace {

std::vector<NodeOffer> read_node_offers() {
  std::vector<NodeOffer> types;
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

double NodeOffer::allocatable_cpus() const {
  const double kept = 0.06 * std::min(vcpus, 1) + 0.01 * std::clamp(vcpus - 1, 0, 1) +
                      0.005 * std::clamp(vcpus - 2, 0, 2) + 0.0025 * std::max(vcpus - 4, 0);
  return vcpus - kept;
}

const std::vector<NodeOffer>& node_offers() {
  static const std::vector<NodeOffer> types = read_node_offers();
  return types;
}

const NodeOffer* find_node_offer(const std::string& name) {
  for (const NodeOffer& type : node_offers()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

}  // namespace mrb
