// The MPIJob that runs a configuration on nodes of one type: right the first time, because check_manifest() finds
// nothing in it.
#pragma once

#include <string>
#include <vector>

#include "manifest/node_offer.hpp"

namespace mrb {

enum class LauncherRole { apart, works };  // works: it is rank 0's node, and one node fewer runs workers
enum class EfaBy { device_plugin, dra };   // who gives a pod its EFA devices

// What a job is to be. Nodes are whole: a pod takes all GPUs and EFA devices of one.
struct JobRequest {
  std::string name = "moe-rl-bench";
  std::string name_space = "default";
  std::string image;
  std::string node_type;  // as in configs/instances
  int nodes = 2;
  int ranks_per_node = 0;                      // 0: one for each GPU; on nodes without, one for each EFA device
  std::vector<std::string> command = {"run"};  // of moe-rl-bench
  std::string config_yaml;                     // mounted, and named behind the command; empty: neither
  int limit_s = 3600;                          // mpirun gets SIGTERM after this, and what there is is brought home
  std::string huge_pages;                      // "5120Mi"; empty: none, and libfabric is told so
  LauncherRole launcher = LauncherRole::apart;
  EfaBy efa = EfaBy::device_plugin;
  std::string queue;           // of Kueue; empty: none
  std::string topology;        // with a queue: the level of topology that must hold all pods
  std::string capacity_block;  // id of the reservation; empty: any node
};

// ranks_per_node with its default filled in. Throws Error(config) for a type that is not known well enough.
int ranks_per_node(const JobRequest&);

// Three documents at most: the configuration, the claim of EFA devices, the job. Throws Error(config) with all faults
// of the request.
std::string render_job(const JobRequest&);

}  // namespace mrb
