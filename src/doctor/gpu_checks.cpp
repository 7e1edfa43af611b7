// The GPUs of a node: whether all are there, sound, and free.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/units.hpp"
#include "bench/neighbours.hpp"
#include "doctor/check.hpp"
#include "doctor/node_type.hpp"
#include "doctor/version_number.hpp"

namespace mrb {

namespace {

constexpr const char* kNoNvml = "NVML is not here, so no GPU was looked at";

// The GPUs for which `is_bad`, with what it says.
Outcome gpus_where(const Facts& facts, const std::function<std::string(const Gpu&)>& is_bad) {
  std::string text;
  for (std::size_t index = 0; index < facts.gpus.size(); ++index) {
    const std::string words = is_bad(facts.gpus[index]);
    if (!words.empty()) text += fmt::format("{}GPU {} {}", text.empty() ? "" : ", ", index, words);
  }
  return text.empty() ? fine() : found(text);
}

Outcome gpu_count(const Facts& facts) {
  const NodeType* type = find_node_type(facts.instance_type);
  if (type == nullptr || type->gpus == 0) return fine();
  // The operator hides the GPUs from a launcher that is no worker; such a pod runs no rank.
  if (facts.gpus.empty()) return not_looked(kNoNvml);
  if (static_cast<int>(facts.gpus.size()) < type->gpus) {
    return found(fmt::format("{} GPUs, where a {} has {}", facts.gpus.size(), type->name, type->gpus));
  }
  return fine();
}

Outcome gpu_model(const Facts& facts) {
  const NodeType* type = find_node_type(facts.instance_type);
  if (facts.gpus.empty()) return type != nullptr && type->gpus > 0 ? not_looked(kNoNvml) : fine();
  const Gpu& first = facts.gpus.front();
  return gpus_where(facts, [&](const Gpu& gpu) {
    const bool is_expected = type == nullptr || gpu.name.find(type->gpu) != std::string::npos;
    const bool is_alike = gpu.name == first.name && gpu.memory_total_bytes == first.memory_total_bytes;
    return is_expected && is_alike ? "" : fmt::format("is {}", gpu.name);
  });
}

Outcome gpu_of_rank(const Facts& facts) {
  if (facts.gpus.empty()) return fine();
  if (facts.local_ranks <= static_cast<int>(facts.gpus.size())) return fine();
  return found(fmt::format("{} ranks on {} GPUs", facts.local_ranks, facts.gpus.size()));
}

Outcome gpu_clocks(const Facts& facts) {
  // NVML's bits: software power cap, hardware slowdown, software and hardware thermal, power brake.
  constexpr std::int64_t kPowerCap = 0x4, kSlowdown = 0x8, kThermal = 0x20 | 0x40, kBrake = 0x80;
  return gpus_where(facts, [](const Gpu& gpu) -> std::string {
    if (gpu.clock_reasons == kUnknown) return "";
    if ((gpu.clock_reasons & kThermal) != 0) return "is held down by heat";
    if ((gpu.clock_reasons & (kSlowdown | kBrake)) != 0) return "is held down by its hardware";
    return (gpu.clock_reasons & kPowerCap) != 0 ? "is at its power limit" : "";
  });
}

Outcome gpu_memory_errors(const Facts& facts) {
  return gpus_where(facts, [](const Gpu& gpu) -> std::string {
    if (gpu.ecc_uncorrected > 0) return fmt::format("has {} uncorrected memory errors", gpu.ecc_uncorrected);
    if (gpu.remap_failure > 0) return "has failed to remap rows of its memory";
    return gpu.remap_pending > 0 ? "waits for a reset to remap rows of its memory" : "";
  });
}

Outcome gpu_xid(const Facts& facts) {
  if (!facts.has_kernel_log) return facts.gpus.empty() ? fine() : not_looked("this pod may not read /dev/kmsg");
  if (facts.xids.empty()) return fine();
  return found(
      fmt::format("{} in the kernel's log, the last: {}", counted(facts.xids.size(), "Xid"), facts.xids.back()));
}

Outcome fabric_manager(const Facts& facts) {
  constexpr std::int64_t kNotSupported = 0, kCompleted = 3;
  return gpus_where(facts, [](const Gpu& gpu) -> std::string {
    if (gpu.fabric_state == kUnknown || gpu.fabric_state == kNotSupported) return "";
    if (gpu.fabric_state != kCompleted)
      return fmt::format("is not registered with the fabric (state {})", gpu.fabric_state);
    return gpu.fabric_status > 0 ? fmt::format("failed to register with the fabric (status {})", gpu.fabric_status)
                                 : "";
  });
}

Outcome gpu_persistence(const Facts& facts) {
  return gpus_where(facts, [](const Gpu& gpu) { return gpu.persistence == 0 ? "has persistence mode off" : ""; });
}

Outcome gpu_mig(const Facts& facts) {
  return gpus_where(facts, [](const Gpu& gpu) { return gpu.mig > 0 ? "is cut into MIG slices" : ""; });
}

Outcome gpu_in_use(const Facts& facts) {
  constexpr std::int64_t kUsedMax = std::int64_t{2} << 30;  // driver and contexts stay well below
  return gpus_where(facts, [](const Gpu& gpu) {
    if (gpu.memory_used_bytes <= kUsedMax) return std::string();
    return fmt::format("has {} in use", bytes_text(static_cast<std::uint64_t>(gpu.memory_used_bytes)));
  });
}

Outcome cuda_driver(const Facts& facts) {
  for (const LibraryLine& line : facts.libraries) {
    if (line.name != "cuda" || line.loaded.empty() || facts.cuda_of_driver <= 0) continue;
    const auto runtime = version_number(line.loaded);
    const std::int64_t driver_major = facts.cuda_of_driver / 1000, driver_minor = facts.cuda_of_driver % 1000 / 10;
    if (runtime[0] <= driver_major) return fine();  // within a major version, minor versions go together
    return found(fmt::format("CUDA {}.{} is loaded, and driver {} is for CUDA {}.{}", runtime[0], runtime[1],
                             facts.gpu_driver, driver_major, driver_minor));
  }
  return fine();
}

Outcome cores_of_gpu(const Facts& facts) {
  if (facts.local_rank >= static_cast<int>(facts.gpus.size())) return fine();
  const Gpu& gpu = facts.gpus[static_cast<std::size_t>(facts.local_rank)];
  const auto near = facts.cpus_of_numa_node.find(std::to_string(gpu.numa_node));
  if (near == facts.cpus_of_numa_node.end()) return not_looked("/sys does not say which cores are near the GPU");
  const auto near_cpus = cpus_in(near->second), mine = cpus_in(facts.cpus);
  const bool is_near = std::any_of(mine.begin(), mine.end(), [&](int cpu) {
    return std::find(near_cpus.begin(), near_cpus.end(), cpu) != near_cpus.end();
  });
  if (is_near || mine.empty()) return fine();
  return found(fmt::format("this rank may run on cores {}, and its GPU {} is near cores {}", facts.cpus,
                           facts.local_rank, near->second));
}

constexpr Check kChecks[] = {
    {"gpu-count", Scope::node, Severity::refuse, gpu_count, "NVML, the instance type",
     "a GPU that fell off the bus leaves the others waiting", "request all GPUs of the type; else replace the node"},
    {"gpu-model", Scope::node, Severity::refuse, gpu_model, "NVML", "unlike GPUs make the slowest one the measure",
     "use nodes of one type"},
    {"gpu-of-rank", Scope::node, Severity::refuse, gpu_of_rank, "NVML, ranks of this node",
     "two ranks on one GPU measure each other", "set slotsPerWorker to the GPUs of a pod"},
    {"gpu-clocks", Scope::node, Severity::warn, gpu_clocks, "NVML's reasons for the clocks",
     "a GPU that is held down is the slowest rank", "wait until it has cooled down, or replace the node"},
    {"gpu-memory-errors", Scope::node, Severity::refuse, gpu_memory_errors, "NVML: ECC, remapped rows",
     "results may be wrong, and the next error ends the job", "drain the node and reset the GPU"},
    {"gpu-xid", Scope::node, Severity::refuse, gpu_xid, "/dev/kmsg", "the driver has met an error of the GPU",
     "look up the Xid; 79, 94, 95, 119, 120 and 154 want a reset or another node"},
    {"fabric-manager", Scope::node, Severity::refuse, fabric_manager, "NVML's fabric state",
     "CUDA does not start (error 802) or NVLink is not used", "restart nvidia-fabricmanager, or replace the node"},
    {"gpu-persistence", Scope::node, Severity::warn, gpu_persistence, "NVML",
     "the driver is set up anew with each process, which is slow and loses clock settings",
     "start nvidia-persistenced on the node"},
    {"gpu-mig", Scope::node, Severity::refuse, gpu_mig, "NVML", "a slice is not the GPU that others measured",
     "switch MIG off on the node (nvidia-smi -mig 0)"},
    {"gpu-in-use", Scope::node, Severity::warn, gpu_in_use, "NVML", "another process has memory and takes time",
     "end what runs on this node, and the job that left it"},
    {"cuda-driver", Scope::node, Severity::refuse, cuda_driver, "NVML, cudaRuntimeGetVersion()",
     "CUDA does not start on an older driver",
     "use an older CUDA image, or a newer driver; purge cuda-compat packages"},
    {"cores-of-gpu", Scope::rank, Severity::warn, cores_of_gpu, "affinity, NUMA nodes",
     "what goes to the GPU crosses sockets", "use mpirun --bind-to none, or bind each rank near its GPU"},
};

}  // namespace

std::span<const Check> gpu_checks() {
  return kChecks;
}

}  // namespace mrb
