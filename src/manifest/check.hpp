// Is this manifest right? Everything that the CRD and the operator demand of an MPIJob, and what both miss.
#pragma once

#include <string>
#include <vector>

#include "manifest/finding.hpp"

namespace mrb {

struct ManifestCheck {
  std::string file;
  int jobs = 0;                           // MPIJobs that were looked at
  int others = 0;                         // objects of other kinds, which were not
  std::vector<ManifestFinding> findings;  // by line

  int count(ManifestSeverity) const;
};

// `text` may hold several documents. What is no YAML is a finding too; nothing is thrown, and it ends at once.
ManifestCheck check_manifest(const std::string& file, const std::string& text);

std::string check_text(const ManifestCheck&);
std::string check_json(const ManifestCheck&);

}  // namespace mrb
