#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "base/units.hpp"
#include "cluster/machine.hpp"

namespace mrb {

namespace {

// CUDA packs 13.2 as 13020.
std::string version_text(int packed) {
  return fmt::format("{}.{}", packed / 1000, packed % 1000 / 10);
}

std::string driver_text() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return "no driver";
  return fmt::format("driver for {}", version_text(driver));
}

std::string gpus_text() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) return fmt::format("no GPU: {}", cudaGetErrorString(code));
  std::string text = fmt::format("{} GPUs", count);
  for (int gpu = 0; gpu < count; ++gpu) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, gpu) != cudaSuccess) continue;
    text += fmt::format("; {}: {}, {}", gpu, properties.name, bytes_text(properties.totalGlobalMem));
  }
  return text;
}

}  // namespace

LibraryLine describe_cuda_library() {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  return {.name = "cuda",
          .built_with = version_text(CUDART_VERSION),
          .loaded = fmt::format("{}; {}; {}", version_text(runtime), driver_text(), gpus_text()),
          .needs = ""};
}

}  // namespace mrb
