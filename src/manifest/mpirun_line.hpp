// What mpirun is told, found in a container's command: how many ranks, how many on a node, which variables they get.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "manifest/yaml_node.hpp"

namespace mrb {

struct MpirunLine {
  const YamlNode* where = nullptr;  // the command, or the argument that holds the script
  std::optional<int> ranks;         // -np; nothing when it is not a plain number
  std::optional<int> ranks_per_node;
  std::vector<std::pair<std::string, std::string>> exported;  // -x NAME or -x NAME=value; the value may be empty
  std::string program;                                        // what the ranks run
  bool allows_root = false;
  bool is_understood = true;  // all options are known, so that what is missing really is missing

  bool exports(const std::string& name) const;
};

// Every mpirun (mpiexec, orterun) in `command` and `args`, in words of their own or in a shell script.
std::vector<MpirunLine> find_mpirun(const YamlNode& container);

// All that the container runs, as one text.
std::string command_text(const YamlNode& container);

}  // namespace mrb
