// An MPIJob as the operator will understand it: the parts that rules ask for again and again, with defaults filled in.
#pragma once

#include <optional>
#include <vector>

#include "manifest/mpirun_line.hpp"
#include "manifest/node_offer.hpp"
#include "manifest/yaml_node.hpp"

namespace mrb {

// The launcher or the workers. Refers to the document, which must outlive it.
struct Replica {
  const YamlNode& spec;       // spec.mpiReplicaSpecs.Launcher
  const YamlNode& pod;        // its template.spec
  const YamlNode& container;  // the first one: the only one that the operator prepares

  bool is_given() const { return spec.is_given(); }

  // What a container of the pod asks for: its limit, or else its request; nothing when neither is a quantity.
  std::optional<double> asked(const char* resource) const;
};

struct JobView {
  explicit JobView(const YamlNode& document);

  const YamlNode& job;
  const YamlNode& spec;
  Replica launcher;
  Replica worker;
  bool launcher_works;                   // spec.runLauncherAsWorker
  bool is_open_mpi;                      // spec.mpiImplementation
  std::optional<int> slots;              // spec.slotsPerWorker; nothing when it is no integer
  std::optional<int> nodes;              // that ranks run on
  std::vector<MpirunLine> mpirun_lines;  // of the launcher
  const NodeOffer* worker_type;          // nullptr: not named, or not known to us

  // Whether ranks of several nodes talk to each other.
  bool has_network() const { return nodes.value_or(1) > 1; }
};

inline constexpr const char* kGpu = "nvidia.com/gpu";
inline constexpr const char* kEfa = "vpc.amazonaws.com/efa";
inline constexpr const char* kHugePages = "hugepages-2Mi";

}  // namespace mrb
