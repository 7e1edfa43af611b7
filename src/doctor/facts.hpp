// What a rank can see of the node, the pod and the job that it runs in: all that the checks look at.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "cluster/machine.hpp"

namespace mrb {

// Numbers that could not be read are kUnknown, texts empty: a check then says that it did not look.
constexpr std::int64_t kUnknown = -1;
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

// A device under /sys/class/infiniband.
struct RdmaDevice {
  std::string name, driver;
  std::string port_state, physical_state;  // "4: ACTIVE", "5: LinkUp"
  double gbit_per_s = 0;                   // 0: unknown
  std::string p2p;                         // who offers device memory to it: "NVIDIA"; empty when there is no such file
  std::string pci_path;                    // below /sys/devices; empty when unknown
  std::map<std::string, std::uint64_t> counters;

  bool is_efa() const { return driver == "efa"; }
};

// What NVML says of a GPU.
struct Gpu {
  std::string name, pci_address, pci_path;
  std::int64_t numa_node = kUnknown;
  std::int64_t memory_used_bytes = kUnknown, memory_total_bytes = kUnknown;
  std::int64_t persistence = kUnknown, mig = kUnknown;  // 1: on
  std::int64_t ecc_uncorrected = kUnknown, remap_pending = kUnknown, remap_failure = kUnknown;
  std::int64_t clock_reasons = kUnknown;  // NVML's bits of what holds the clocks down
  std::int64_t fabric_state = kUnknown;   // NVML: 0 not supported, 1 not started, 2 in progress, 3 completed
  std::int64_t fabric_status = kUnknown;  // 0: success
};

struct Facts {
  int rank = 0, local_rank = 0, local_ranks = 1;  // the last two as mpirun said
  std::string host, kernel, instance_type, vendor;
  std::string zone, network_node, capacity_block;  // from labels; empty when the pod does not have them
  std::map<std::string, std::string> environment;  // what changes how libraries behave
  std::string nccl_conf;                           // /etc/nccl.conf

  std::string transport, provider;  // what the configuration asks for

  std::string cpus;  // that this rank may run on
  std::map<std::string, std::string> cpus_of_numa_node;
  std::int64_t cores_allowed = 1;
  std::int64_t cpu_periods = kUnknown, cpu_periods_throttled = kUnknown;

  std::int64_t memory_limit_bytes = kUnknown, oom_kills = kUnknown;
  std::int64_t memlock_bytes = kUnknown;
  bool has_ipc_lock = false;
  std::string shm_type;
  std::int64_t shm_free_bytes = kUnknown;
  std::vector<std::string> shm_stale;        // left in /dev/shm by processes that are gone
  std::int64_t huge_pages_bytes = kUnknown;  // that are free here and allowed to this pod

  std::vector<RdmaDevice> devices;
  std::vector<std::string> foreign_uverbs;  // device nodes in this pod of what is no EFA device
  std::int64_t uverbs = kUnknown;           // all device nodes in this pod
  std::string efa_driver_version;
  bool has_gdrdrv = false;

  std::vector<Gpu> gpus;
  std::string gpu_driver;                  // version
  std::string gpu_driver_kind;             // first line of /proc/driver/nvidia/version
  std::int64_t cuda_of_driver = kUnknown;  // 13000 for CUDA 13.0

  std::vector<LibraryLine> libraries;
  std::map<std::string, std::string> library_files;  // libfabric, libmpi, libnccl: the file that is mapped

  std::map<std::string, std::int64_t> mtu;         // by interface, lo left out
  std::vector<std::string> hostfile;               // the hosts that an MPIJob's hostfile names
  std::map<std::string, std::string> unreachable;  // hosts of it, and why
  bool has_tried_hosts = false;

  std::vector<std::string> xids;  // lines of the kernel's log
  bool has_kernel_log = false;
  std::vector<std::string> nccl_log;      // lines of NCCL's log that say what it uses
  std::int64_t wall_clock_ns = kUnknown;  // right after all ranks have met

  int efa_count() const;
  // Whether EFA should carry the bytes here: the instance type has it, a device is there, or it is asked for.
  bool expects_efa() const;
  // A node of a cluster, of which more is asked than of a laptop.
  bool is_cluster_node() const;
  std::string variable(const std::string& name) const;  // empty when it is not set
};

// One rank's facts as text for another rank, and back.
std::string facts_text(const Facts&);
Facts facts_from_text(const std::string&);

}  // namespace mrb
