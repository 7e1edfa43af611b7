#include "doctor/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <memory>

namespace mrb {

namespace {

// The part of nvml.h that is used; its names and layouts are NVIDIA's and do not change.
using Device = struct DeviceHandle*;
struct PciInfo {
  char bus_id_short[16];
  unsigned domain, bus, device, ids, subsystem_ids;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
struct FabricInfo {
  unsigned char cluster_uuid[16];
  unsigned status, clique_id;
  unsigned char state;
};
constexpr int kUncorrected = 1, kSinceBoot = 0;

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    is_open_ = library_ != nullptr && call("nvmlInit_v2");
  }
  ~Nvml() {
    if (is_open_) call("nvmlShutdown");
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool is_open() const { return is_open_; }

  // Whether the function is there and succeeded: an old driver lacks some, and some GPUs do not support some.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == 0;
  }

 private:
  void* library_;
  bool is_open_ = false;
};

std::string gpu_line(const Nvml& nvml, unsigned index) {
  Device device = nullptr;
  char name[96] = "?";
  PciInfo pci{};
  if (!nvml.call("nvmlDeviceGetHandleByIndex_v2", index, &device)) return "?\n";
  nvml.call("nvmlDeviceGetName", device, name, static_cast<unsigned>(sizeof name));
  std::string line = name;
  if (nvml.call("nvmlDeviceGetPciInfo_v3", device, &pci)) line += fmt::format("|pci={}", pci.bus_id);
  Memory memory{};
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory)) {
    line += fmt::format("|memory_used_bytes={}|memory_total_bytes={}", memory.used, memory.total);
  }
  unsigned first = 0, second = 0, third = 0, fourth = 0;
  if (nvml.call("nvmlDeviceGetPersistenceMode", device, &first)) line += fmt::format("|persistence={}", first);
  if (nvml.call("nvmlDeviceGetMigMode", device, &first, &second)) line += fmt::format("|mig={}", first);
  unsigned long long wide = 0;
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceBoot, &wide)) {
    line += fmt::format("|ecc_uncorrected={}", wide);
  }
  if (nvml.call("nvmlDeviceGetRemappedRows", device, &first, &second, &third, &fourth)) {
    line += fmt::format("|remap_pending={}|remap_failure={}", third, fourth);
  }
  if (nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &wide)) {
    line += fmt::format("|clock_reasons={}", wide);
  }
  FabricInfo fabric{};
  if (nvml.call("nvmlDeviceGetGpuFabricInfo", device, &fabric)) {
    line += fmt::format("|fabric_state={}|fabric_status={}", fabric.state, fabric.status);
  }
  return line + "\n";
}

}  // namespace

std::string nvml_text() {
  const Nvml nvml;
  unsigned count = 0;
  if (!nvml.is_open() || !nvml.call("nvmlDeviceGetCount_v2", &count) || count == 0) return "";
  char driver[96] = "?";
  int cuda = 0;
  nvml.call("nvmlSystemGetDriverVersion", driver, static_cast<unsigned>(sizeof driver));
  nvml.call("nvmlSystemGetCudaDriverVersion_v2", &cuda);
  std::string text = fmt::format("driver {} cuda {}\n", driver, cuda);
  for (unsigned index = 0; index < count; ++index) text += gpu_line(nvml, index);
  return text;
}

}  // namespace mrb
