// The EFA devices of a node, and what they need.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/units.hpp"
#include "doctor/check.hpp"
#include "doctor/node_type.hpp"
#include "doctor/version_number.hpp"

namespace mrb {

namespace {

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 4;
  const std::vector<std::string> first(names.begin(),
                                       names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

Outcome efa_count(const Facts& facts) {
  const NodeType* type = find_node_type(facts.instance_type);
  const int devices = facts.efa_count();
  if (type == nullptr) {
    return facts.provider == "efa" && devices == 0
               ? found("provider efa is asked for, and /sys/class/infiniband has no EFA device")
               : fine();
  }
  if (devices < type->efa_devices) {
    return found(fmt::format("{} EFA devices, where a {} has {}", devices, type->name, type->efa_devices));
  }
  const std::int64_t efa_uverbs = facts.uverbs - static_cast<std::int64_t>(facts.foreign_uverbs.size());
  if (facts.uverbs != kUnknown && efa_uverbs < type->efa_devices) {
    return found(fmt::format("{} of the node's {} EFA devices are in this pod (/dev/infiniband/uverbs*)", efa_uverbs,
                             type->efa_devices));
  }
  return fine();
}

Outcome foreign_rdma(const Facts& facts) {
  if (!facts.expects_efa()) return fine();
  if (!facts.foreign_uverbs.empty())
    return found("this pod has " + some_of(facts.foreign_uverbs) + ", which is no EFA");
  std::vector<std::string> foreign;
  for (const RdmaDevice& device : facts.devices) {
    if (!device.is_efa()) foreign.push_back(fmt::format("{} (driver {})", device.name, device.driver));
  }
  const NodeType* type = find_node_type(facts.instance_type);
  const std::size_t usual = type == nullptr ? 0 : static_cast<std::size_t>(type->other_rdma_devices);
  const int efa = std::max(facts.efa_count(), type == nullptr ? 0 : type->efa_devices);
  if (efa > 0 && facts.uverbs > efa) {
    return found(fmt::format("/dev/infiniband has {} devices, and at most {} are EFA", facts.uverbs, efa));
  }
  return foreign.size() > usual ? found(some_of(foreign) + " beside EFA") : fine();
}

Outcome efa_ports(const Facts& facts) {
  std::vector<std::string> down;
  for (const RdmaDevice& device : facts.devices) {
    if (!device.is_efa() || device.port_state.empty()) continue;
    const bool is_up = device.port_state.find("ACTIVE") != std::string::npos &&
                       (device.physical_state.empty() || device.physical_state.find("LinkUp") != std::string::npos);
    if (!is_up) down.push_back(fmt::format("{} is {} ({})", device.name, device.port_state, device.physical_state));
  }
  return down.empty() ? fine() : found(some_of(down));
}

Outcome efa_rate(const Facts& facts) {
  const NodeType* type = find_node_type(facts.instance_type);
  if (type == nullptr) return fine();
  std::vector<std::string> slow;
  for (const RdmaDevice& device : facts.devices) {
    if (device.is_efa() && device.gbit_per_s > 0 && device.gbit_per_s < type->gbit_per_device) {
      slow.push_back(fmt::format("{} at {:g} Gbit/s", device.name, device.gbit_per_s));
    }
  }
  return slow.empty() ? fine()
                      : found(fmt::format("{}, where a {} has {:g}", some_of(slow), type->name, type->gbit_per_device));
}

Outcome efa_driver(const Facts& facts) {
  if (facts.efa_count() == 0) return fine();
  if (facts.efa_driver_version.empty())
    return not_looked("/sys/module/efa/version is not there: the kernel's own driver");
  // 2.5 came with the installer of the time when p5 began, the first instances that need RDMA writes.
  constexpr std::array<int, 3> kOldest = {2, 5, 0};
  if (version_number(facts.efa_driver_version) < kOldest) {
    return found(fmt::format("the EFA driver is {}", facts.efa_driver_version));
  }
  return fine();
}

// Either the driver's peer memory, or dmabuf, which the open kernel modules export and kernels from 5.12 on import.
Outcome gpudirect(const Facts& facts) {
  const NodeType* type = find_node_type(facts.instance_type);
  const bool is_needed = type != nullptr && type->device_memory == DeviceMemory::by_device;
  if (!is_needed || facts.efa_count() == 0) return fine();
  const auto by_peer = std::count_if(facts.devices.begin(), facts.devices.end(), [](const RdmaDevice& d) {
    return d.is_efa() && d.p2p.find("NVIDIA") != std::string::npos;
  });
  if (by_peer == facts.efa_count()) return fine();
  constexpr std::array<int, 3> kImports = {5, 12, 0};
  const bool is_open = facts.gpu_driver_kind.find("Open Kernel Module") != std::string::npos;
  if (is_open && version_number(facts.kernel) >= kImports) return fine();
  return found(fmt::format("{} of {} EFA devices reach GPU memory (device/p2p), and there is no dmabuf: {}, kernel {}",
                           by_peer, facts.efa_count(),
                           facts.gpu_driver_kind.empty() ? "no NVIDIA driver is seen" : facts.gpu_driver_kind,
                           facts.kernel));
}

Outcome gdrcopy(const Facts& facts) {
  const NodeType* type = find_node_type(facts.instance_type);
  const bool is_useful = type != nullptr && type->device_memory == DeviceMemory::by_device;
  return is_useful && !facts.has_gdrdrv ? found("there is no /dev/gdrdrv in this pod") : fine();
}

Outcome huge_pages(const Facts& facts) {
  if (facts.efa_count() == 0 || facts.variable("FI_EFA_USE_HUGE_PAGE") == "0") return fine();
  if (facts.huge_pages_bytes == kUnknown) return not_looked("/proc/meminfo says nothing of huge pages");
  // AWS's host tooling sizes them so; each device has an endpoint of one rank.
  constexpr std::int64_t kBytesPerEndpoint = 110'000'000;
  const std::int64_t need = kBytesPerEndpoint * facts.efa_count();
  if (facts.huge_pages_bytes >= need) return fine();
  return found(fmt::format("{} of huge pages are free to this pod, and {} endpoints take {}",
                           bytes_text(static_cast<std::uint64_t>(facts.huge_pages_bytes)), facts.efa_count(),
                           bytes_text(static_cast<std::uint64_t>(need))));
}

Outcome efa_errors(const Facts& facts) {
  constexpr const char* kErrors[] = {"cmds_err",
                                     "reg_mr_err",
                                     "unresponsive_remote_events",
                                     "impaired_remote_conn_events",
                                     "rdma_write_wr_err",
                                     "rdma_read_wr_err",
                                     "rx_drops"};
  std::vector<std::string> seen;
  for (const RdmaDevice& device : facts.devices) {
    for (const char* name : kErrors) {
      const auto counter = device.counters.find(name);
      if (device.is_efa() && counter != device.counters.end() && counter->second > 0) {
        seen.push_back(fmt::format("{} of {}: {}", name, device.name, counter->second));
      }
    }
  }
  return seen.empty() ? fine() : found(some_of(seen));
}

// How many folders two devices have in common on their way from the root.
std::size_t common_depth(const std::string& a, const std::string& b) {
  std::size_t depth = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) depth += a[i] == '/' ? 1 : 0;
  return depth;
}

// Each network card belongs to the GPUs that it shares most switches with, in equal parts.
Outcome nic_of_gpu(const Facts& facts) {
  if (facts.gpus.empty() || facts.efa_count() == 0) return fine();
  const NodeType* type = find_node_type(facts.instance_type);
  const bool lacks_some =
      type != nullptr && (facts.efa_count() < type->efa_devices || static_cast<int>(facts.gpus.size()) < type->gpus);
  if (lacks_some) return fine();  // that is a finding of its own
  std::vector<double> cards(facts.gpus.size());
  for (const RdmaDevice& device : facts.devices) {
    if (!device.is_efa()) continue;
    if (device.pci_path.empty()) return not_looked("/sys/bus/pci does not say where " + device.name + " hangs");
    std::size_t deepest = 0;
    std::vector<std::size_t> nearest;
    for (std::size_t gpu = 0; gpu < facts.gpus.size(); ++gpu) {
      if (facts.gpus[gpu].pci_path.empty()) return not_looked("/sys/bus/pci does not say where the GPUs hang");
      const std::size_t depth = common_depth(device.pci_path, facts.gpus[gpu].pci_path);
      if (depth > deepest) nearest.clear();
      deepest = std::max(deepest, depth);
      if (depth == deepest) nearest.push_back(gpu);
    }
    for (const std::size_t gpu : nearest) cards[gpu] += 1.0 / static_cast<double>(nearest.size());
  }
  const auto [least, most] = std::minmax_element(cards.begin(), cards.end());
  constexpr double kRounding = 1e-6;
  if (*most - *least < kRounding) return fine();
  return found(fmt::format("EFA devices near each GPU: {:g}", fmt::join(cards, ", ")));
}

constexpr Check kChecks[] = {
    {"efa-count", Scope::node, Severity::refuse, efa_count, "/sys/class/infiniband, /dev/infiniband, the instance type",
     "each missing device is bandwidth that the others of the job have",
     "request all of the type's vpc.amazonaws.com/efa; devices that come late need the node's EFA service to try "
     "again"},
    {"foreign-rdma", Scope::node, Severity::refuse, foreign_rdma, "/sys/class/infiniband, /dev/infiniband",
     "with a foreign device in the pod the efa provider finds nothing and all goes over TCP",
     "do not mount the host's /dev/infiniband: the device plugin brings what belongs into the pod"},
    {"efa-port", Scope::node, Severity::refuse, efa_ports, "ports/1/state and phys_state",
     "a port that is not active carries nothing", "replace the node"},
    {"efa-rate", Scope::node, Severity::warn, efa_rate, "ports/1/rate, the instance type",
     "a slow port holds up every exchange", "replace the node, or compare only with runs on it"},
    {"efa-driver", Scope::node, Severity::warn, efa_driver, "/sys/module/efa/version",
     "old drivers lack RDMA writes and dmabuf", "use a newer AMI, or EFA's installer on the node"},
    {"gpudirect", Scope::node, Severity::refuse, gpudirect,
     "device/p2p, /proc/driver/nvidia/version, the kernel's version",
     "rows would go through host memory, or registration fails",
     "load efa_nv_peermem on the node, or use the driver's open kernel modules"},
    {"gdrcopy", Scope::node, Severity::warn, gdrcopy, "/dev/gdrdrv",
     "small messages to GPUs are copied the slow way, and some transports do not start",
     "install gdrdrv on the node and set NVIDIA_GDRCOPY=enabled in the pod"},
    {"huge-pages", Scope::node, Severity::warn, huge_pages, "/proc/meminfo, hugetlb limits of the cgroup (v1, v2)",
     "the provider takes its bounce buffers from huge pages",
     "request hugepages-2Mi in the pod, or set FI_EFA_USE_HUGE_PAGE=0"},
    {"efa-errors", Scope::node, Severity::warn, efa_errors, "hw_counters of each port",
     "errors that a device counted slow down what is measured",
     "run again and see whether they grow; then replace the node"},
    {"nic-of-gpu", Scope::node, Severity::warn, nic_of_gpu, "/sys/bus/pci/devices",
     "a GPU with fewer devices near it is the slowest rank", "request all devices of the node; else replace it"},
};

}  // namespace

std::span<const Check> efa_checks() {
  return kChecks;
}

}  // namespace mrb
