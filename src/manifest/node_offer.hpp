// What a node of each instance type offers to pods: from configs/instances, built into the program.
#pragma once

#include <string>
#include <vector>

namespace mrb {

struct NodeOffer {
  std::string name;
  int gpus = 0;
  int efa_devices = 0;
  int vcpus = 0;            // 0: not known
  double memory_gib = 0;    // 0: not known
  double usd_per_hour = 0;  // on demand, us-east-1; 0: no price is published
  std::string price_source;

  // Processors that kubelet leaves to pods. On EKS nodes it keeps 6% of the first, 1% of the second, 0.5% of the next
  // two and 0.25% of the rest; so does Karpenter (191.45 of 192).
  double allocatable_cpus() const;
};

// All of them, those with GPUs first.
const std::vector<NodeOffer>& node_offers();

// nullptr when there is none of this name.
const NodeOffer* find_node_offer(const std::string& name);

}  // namespace mrb
