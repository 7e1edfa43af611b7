// From a YAML file to keys and values with their places. Whatever the file holds, this ends at once: it is read as
// a stream of events that are checked as they come, and nothing in it is ever expanded.
#pragma once

#include <string>
#include <vector>

#include "config/faults.hpp"

namespace mrb {

// One key and what was given for it, in a file or elsewhere.
struct Given {
  std::string key;  // "grpo.prompts"; the long form "transport.name" is called "transport"
  std::vector<std::string> values;
  bool is_list = false;   // written as a list; otherwise `values` holds one text
  std::string where;      // of the value: "quickstart.yaml:3:7", "MRB_SEED", "--set grpo.prompts", "--seed"
  std::string key_where;  // of the key
};

// Everything that the file gives, in order. A file that cannot be read, is no regular file, is empty or too long, or
// is not one mapping in YAML throws Error(config); what is wrong inside is added to `faults`, and the rest is read.
std::vector<Given> read_yaml(const std::string& path, Faults& faults);

}  // namespace mrb
