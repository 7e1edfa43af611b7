#include "compute/backend.hpp"

namespace mrb {

using ComputeFactory = std::unique_ptr<ComputeBackend> (*)(const ComputeOptions&);

#define MRB_BACKEND(name) std::unique_ptr<ComputeBackend> make_##name##_compute(const ComputeOptions&);
#define MRB_MISSING(name, needs)
#include "compute_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING

static constexpr RegistryEntry<ComputeFactory> kBackends[] = {
#define MRB_BACKEND(name) {#name, make_##name##_compute, ""},
#define MRB_MISSING(name, needs) {#name, nullptr, needs},
#include "compute_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING
};

std::unique_ptr<ComputeBackend> make_compute(std::string_view name, const ComputeOptions& options) {
  return find_factory<ComputeFactory>("compute backend", name, kBackends)(options);
}

std::vector<RegistryLine> compute_lines() {
  return registry_lines<ComputeFactory>(kBackends);
}

}  // namespace mrb
