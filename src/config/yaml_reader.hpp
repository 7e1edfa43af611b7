// From a YAML file to keys and scalars with their places. Whatever the file holds, this ends at once.
#pragma once

#include <string>
#include <vector>

#include "config/faults.hpp"

namespace mrb {

// One key and what stands behind it. "transport.name" is called "transport".
struct YamlEntry {
  std::string key;
  std::vector<std::string> values;
  bool is_list = false;
  std::string where;  // file:line:column of the value
};

// Every entry of the file, in order. A file that cannot be read, is no regular file, is empty or too long, or is not
// YAML throws Error(config); what is wrong inside is added to `faults`, and the rest is read.
std::vector<YamlEntry> read_yaml(const std::string& path, Faults& faults);

}  // namespace mrb
