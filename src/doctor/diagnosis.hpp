// All checks over all ranks: is this node, pod or cluster fit to be measured at all?
#pragma once

#include <string>
#include <vector>

#include "cluster/bootstrap.hpp"
#include "doctor/check.hpp"

namespace mrb {

struct Finding {
  std::string id;
  Scope scope = Scope::rank;
  Severity severity = Severity::note;
  std::string problem, reads, why, fix;
  std::vector<int> ranks;  // that it was found on, ascending; of a node its first rank; of the job none
  std::vector<std::string> hosts;
};

struct NotLooked {
  std::string id, why;
};

struct Diagnosis {
  std::vector<Finding> findings;  // worst first
  std::vector<NotLooked> not_looked;
  int checks = 0;  // that were made, or could not be
  int ranks = 0, nodes = 0;
  std::string host, instance_type;  // of rank 0

  bool has(Severity) const;
  bool is_fit() const { return !has(Severity::refuse); }
  bool is_comparable() const { return is_fit() && !has(Severity::warn); }
};

// `by_rank`: at least one. The same finding of several ranks is one. On what is no node of a cluster (a laptop, a CI
// machine) all findings are notes, as long as nothing of EFA is asked for.
Diagnosis diagnose(const std::vector<Facts>& by_rank);

// Collective. Every rank's facts, on every rank, with ranks and clocks filled in.
std::vector<Facts> gather_facts(Bootstrap&, Facts mine);

}  // namespace mrb
