// The processor as a compute backend: oneDNN for products, vectorised loops for the rest.
#include <fmt/format.h>
#include <omp.h>

#include "cluster/machine.hpp"
#include "compute/backend.hpp"
#include "compute/cpu/cpu_operations.hpp"
#include "compute/cpu/cpu_products.hpp"
#include "compute/cpu/memory_pool.hpp"
#include "compute/cpu/onednn.hpp"

namespace mrb {

namespace {

std::unique_ptr<ProductOps> make_products(const std::string& dtype) {
  if (dtype == "f32") return make_f32_products();
  if (dtype == "bf16") return make_bf16_products();
  throw Error(ErrorKind::config, fmt::format("the cpu backend does not multiply '{}'", dtype), "use f32 or bf16");
}

class Cpu final : public ComputeBackend {
 public:
  explicit Cpu(const ComputeOptions& options)
      : products_(make_products(options.dtype)), f32_products_(make_f32_products()) {
    capabilities_ = {.name = "cpu",
                     .device = read_machine().processor,
                     .loaded_library = onednn_text(),
                     .dtype = options.dtype,
                     .threads = options.threads};
    omp_set_num_threads(options.threads);
  }

  const ComputeCapabilities& capabilities() const override { return capabilities_; }
  void* allocate(std::size_t bytes) override { return pool_.allocate(bytes); }
  void release(void* memory, std::size_t bytes) override { pool_.release(memory, bytes); }
  Operations operations() override {
    return {*products_, *f32_products_, layers_, attention_, router_, tokens_, optimizer_};
  }
  void synchronize() override {}  // every call returns when it is done

 private:
  ComputeCapabilities capabilities_;
  MemoryPool pool_;
  std::unique_ptr<ProductOps> products_;
  std::unique_ptr<ProductOps> f32_products_;
  CpuLayers layers_;
  CpuAttention attention_;
  CpuRouter router_;
  CpuTokens tokens_;
  CpuOptimizer optimizer_;
};

}  // namespace

std::unique_ptr<ComputeBackend> make_cpu_compute(const ComputeOptions& options) {
  return std::make_unique<Cpu>(options);
}

}  // namespace mrb
