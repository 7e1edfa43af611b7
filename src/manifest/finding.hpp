// What is wrong with a manifest: where, what, why it matters, and what to write instead.
#pragma once

#include <string>
#include <vector>

#include "manifest/yaml_node.hpp"

namespace mrb {

enum class ManifestSeverity {
  note,     // worth knowing
  warning,  // it runs, but measures something else, costs more or breaks later
  error,    // it is refused, never starts, or does not do what it says
};

struct Words {
  std::string problem;  // with the values
  std::string why;
  std::string fix;
};

struct ManifestFinding {
  ManifestSeverity severity = ManifestSeverity::error;
  std::string rule;  // "clean-pod-policy": for scripts, and never changes
  std::string path;  // "spec.runPolicy.cleanPodPolicy"
  int line = 0;      // in the file
  Words words;
};

class ManifestFindings {
 public:
  void add(ManifestSeverity severity, const char* rule, const YamlNode& at, Words words) {
    all_.push_back({severity, rule, at.path, at.line, std::move(words)});
  }

  // About a field that is not there: `path` below `in`, whose line is shown.
  void add_missing(ManifestSeverity severity, const char* rule, const YamlNode& in, const std::string& path,
                   Words words) {
    all_.push_back({severity, rule, in.path.empty() ? path : in.path + "." + path, in.line, std::move(words)});
  }

  const std::vector<ManifestFinding>& all() const { return all_; }

 private:
  std::vector<ManifestFinding> all_;
};

}  // namespace mrb
