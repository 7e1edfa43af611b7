// The tests of the kernels on a real GPU; without one they are skipped, and say why.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include <cuda_runtime_api.h>

#include <cstdio>

#include "support/catch.hpp"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;  // as CMakeLists.txt says
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU here (cudaGetDeviceCount: %s, %d devices)\n", cudaGetErrorString(result), devices);
    return kSkipped;
  }
  return Catch::Session().run(argc, argv);
}
