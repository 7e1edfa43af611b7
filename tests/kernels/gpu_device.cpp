#include <stdexcept>

#include "kernels/cuda_call.hpp"
#include "kernels/device.hpp"
#include "kernels/launch.hpp"

namespace mrb::test {

using kernels::check_cuda;

DeviceMemory::DeviceMemory(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMalloc(&data_, bytes), "cudaMalloc");
  constexpr int kNoise = 0x7f;
  check_cuda(cudaMemset(data_, kNoise, bytes), "cudaMemset");
}

DeviceMemory::~DeviceMemory() {
  cudaFree(data_);
}

void DeviceMemory::write(const void* from) {
  if (bytes_ > 0) check_cuda(cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void DeviceMemory::read(void* to) const {
  check_cuda(cudaDeviceSynchronize(), "running a kernel");
  if (bytes_ > 0) check_cuda(cudaMemcpy(to, data_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void on_every_schedule(const std::function<void()>& test) {
  for (const std::int64_t blocks_max : {3, 4096}) {
    kernels::limit_blocks(blocks_max);
    test();
  }
}

void at_the_same_time(const std::vector<std::function<void(void* stream)>>& launches) {
  check_cuda(cudaDeviceSynchronize(), "running what was launched before");
  std::vector<cudaStream_t> streams(launches.size());
  for (std::size_t i = 0; i < launches.size(); ++i) {
    check_cuda(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    launches[i](streams[i]);
  }
  check_cuda(cudaDeviceSynchronize(), "running kernels at the same time");
  for (const cudaStream_t stream : streams) check_cuda(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

}  // namespace mrb::test
