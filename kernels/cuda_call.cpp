#include "kernels/cuda_call.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace mrb::kernels {

void check_cuda(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) return;
  throw Error(ErrorKind::environment,
              fmt::format("{} failed: {} ({})", call, cudaGetErrorString(result), cudaGetErrorName(result)),
              "run nvidia-smi to see whether the card and its driver are well, and what else uses it");
}

namespace detail {

// Of device.cuh: what a launch left behind.
void check_launch(const char* kernel);
void check_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), fmt::format("launching kernel {}", kernel));
}

}  // namespace detail

}  // namespace mrb::kernels
