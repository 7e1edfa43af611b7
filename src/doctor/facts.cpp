#include "doctor/facts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "doctor/node_type.hpp"

namespace mrb {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LibraryLine, name, built_with, loaded, needs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RdmaDevice, name, driver, port_state, physical_state, gbit_per_s, p2p, pci_path,
                                   counters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Gpu, name, pci_address, pci_path, numa_node, memory_used_bytes, memory_total_bytes,
                                   persistence, mig, ecc_uncorrected, remap_pending, remap_failure, clock_reasons,
                                   fabric_state, fabric_status)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Facts, rank, local_rank, local_ranks, host, kernel, instance_type, vendor, zone,
                                   network_node, capacity_block, environment, nccl_conf, transport, provider, cpus,
                                   cpus_of_numa_node, cores_allowed, cpu_periods, cpu_periods_throttled,
                                   memory_limit_bytes, oom_kills, memlock_bytes, has_ipc_lock, shm_type, shm_free_bytes,
                                   shm_stale, huge_pages_bytes, devices, foreign_uverbs, uverbs, efa_driver_version,
                                   has_gdrdrv, gpus, gpu_driver, gpu_driver_kind, cuda_of_driver, libraries,
                                   library_files, mtu, hostfile, unreachable, has_tried_hosts, xids, has_kernel_log,
                                   nccl_log, wall_clock_ns)

int Facts::efa_count() const {
  return static_cast<int>(std::count_if(devices.begin(), devices.end(), [](const auto& d) { return d.is_efa(); }));
}

bool Facts::expects_efa() const {
  return find_node_type(instance_type) != nullptr || efa_count() > 0 || provider == "efa";
}

bool Facts::is_cluster_node() const {
  return expects_efa() || vendor == "Amazon EC2" || !hostfile.empty() || !variable("K_MPI_JOB_ROLE").empty();
}

std::string Facts::variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string facts_text(const Facts& facts) {
  return nlohmann::json(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Facts facts_from_text(const std::string& text) {
  return nlohmann::json::parse(text).get<Facts>();
}

}  // namespace mrb
