// The one place where errors of the CUDA runtime are put into words.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace mrb::kernels {

// Throws Error(environment) with CUDA's own words unless `result` is success. `call` names what was tried.
void check_cuda(cudaError_t result, std::string_view call);

}  // namespace mrb::kernels
