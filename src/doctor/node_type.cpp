#include "doctor/node_type.hpp"

#include <algorithm>

namespace mrb {

namespace {

constexpr auto kByDevice = DeviceMemory::by_device;
constexpr auto kByHost = DeviceMemory::by_host;

// From instance-types.md of aws/karpenter-provider-aws and platform-aws.cpp of aws/aws-ofi-nccl (which requires
// GPUDirect of the types marked by_device). p6-b200 and p6-b300 hosts have two RDMA devices that are no EFA.
constexpr NodeType kTypes[] = {{"p4d.24xlarge", "A100", 8, 4, 100, 0, kByDevice},
                               {"p4de.24xlarge", "A100", 8, 4, 100, 0, kByDevice},
                               {"p5.48xlarge", "H100", 8, 32, 100, 0, kByDevice},
                               {"p5e.48xlarge", "H200", 8, 32, 100, 0, kByDevice},
                               {"p5en.48xlarge", "H200", 8, 16, 200, 0, kByDevice},
                               {"p6-b200.48xlarge", "B200", 8, 8, 400, 2, kByDevice},
                               {"p6-b300.48xlarge", "B300", 8, 16, 400, 2, kByDevice},
                               {"p6e-gb200.36xlarge", "GB200", 4, 4, 400, 0, kByDevice},
                               {"p5.4xlarge", "H100", 1, 1, 100, 0, kByHost},
                               {"g6e.48xlarge", "L40S", 8, 4, 100, 0, kByHost},
                               {"g5.48xlarge", "A10G", 8, 1, 100, 0, kByHost},
                               {"hpc7a.96xlarge", "", 0, 2, 150, 0, kByHost},
                               {"hpc8a.96xlarge", "", 0, 2, 150, 0, kByHost},
                               {"hpc6a.48xlarge", "", 0, 1, 100, 0, kByHost},
                               {"hpc7g.16xlarge", "", 0, 1, 200, 0, kByHost},
                               {"c6in.32xlarge", "", 0, 2, 100, 0, kByHost},
                               {"c7gn.16xlarge", "", 0, 1, 200, 0, kByHost},
                               {"c8gn.48xlarge", "", 0, 2, 300, 0, kByHost},
                               {"c5n.18xlarge", "", 0, 1, 100, 0, kByHost}};

}  // namespace

std::span<const NodeType> node_types() {
  return kTypes;
}

const NodeType* find_node_type(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const NodeType& t) { return t.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace mrb
