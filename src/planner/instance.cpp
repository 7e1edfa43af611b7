#include "planner/instance.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.hpp"
#include "config/faults.hpp"
#include "config/yaml_reader.hpp"

namespace mrb {

namespace {

// What a job's manifest needs to know of a node: manifest/node_offer.hpp reads it from the same files.
const std::set<std::string> kOfManifests = {"efa_devices", "vcpus", "memory_gib"};

}  // namespace

Instance read_instance(const std::string& path) {
  Instance instance;
  double gpus = 0, domain = 0;
  const std::map<std::string, std::string*> texts = {
      {"name", &instance.name}, {"gpu", &instance.gpu}, {"price_source", &instance.price_source}};
  const std::map<std::string, double*> numbers = {{"gpus_per_node", &gpus},
                                                  {"hbm_gbyte", &instance.hbm_gbyte},
                                                  {"hbm_gbyte_per_s", &instance.hbm_gbyte_per_s},
                                                  {"bf16_tflop_per_s", &instance.bf16_tflop_per_s},
                                                  {"nvlink_gbyte_per_s", &instance.nvlink_gbyte_per_s},
                                                  {"nvlink_domain_gpus", &domain},
                                                  {"efa_gbyte_per_s", &instance.efa_gbyte_per_s},
                                                  {"latency_us", &instance.latency_us},
                                                  {"usd_per_hour", &instance.usd_per_hour}};
  Faults faults;
  std::set<std::string> seen;
  for (const Given& given : read_yaml(path, faults)) {
    const std::string& text = given.values.front();
    seen.insert(given.key);
    if (const auto found = texts.find(given.key); found != texts.end()) {
      *found->second = text;
    } else if (const auto number = numbers.find(given.key); number != numbers.end()) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number->second);
      if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(*number->second) ||
          *number->second <= 0) {
        faults.add(given.where, fmt::format("{} is '{}'", given.key, shown(text)), "give a number above 0");
      }
    } else if (!kOfManifests.contains(given.key)) {
      faults.add(given.key_where, fmt::format("an instance has no '{}'", shown(given.key)),
                 "compare with the other files in configs/instances");
    }
  }
  for (const auto& [key, value] : numbers) {
    if (!seen.contains(key) && key != "usd_per_hour") faults.add(path, key + " is missing", "add it, with its source");
  }
  if (!seen.contains("name")) faults.add(path, "name is missing", "add it");
  faults.report();
  instance.gpus_per_node = static_cast<int>(gpus);
  instance.nvlink_domain_gpus = static_cast<int>(domain);
  return instance;
}

std::vector<Instance> read_instances(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  }
  if (paths.empty()) {
    throw Error(ErrorKind::config, fmt::format("no instance files (*.yaml) are in '{}'", shown(folder)),
                "run in the project's folder, or say --data FOLDER where `instances` is in");
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Instance> instances;
  for (const std::string& path : paths) instances.push_back(read_instance(path));
  return instances;
}

const Instance& find_instance(const std::vector<Instance>& instances, const std::string& name) {
  std::vector<std::string> names;
  for (const Instance& instance : instances) {
    if (instance.name == name) return instance;
    names.push_back(instance.name);
  }
  throw Error(ErrorKind::config, fmt::format("there is no instance type called '{}'", shown(name)),
              fmt::format("use one of: {}", fmt::join(names, ", ")));
}

}  // namespace mrb
