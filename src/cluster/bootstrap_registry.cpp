#include <cstdlib>

#include "cluster/bootstrap.hpp"

namespace mrb {

using BootstrapFactory = std::unique_ptr<Bootstrap> (*)(const BootstrapOptions&);

#define MRB_BACKEND(name) std::unique_ptr<Bootstrap> make_##name##_bootstrap(const BootstrapOptions&);
#define MRB_MISSING(name, needs)
#include "bootstrap_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING

static constexpr RegistryEntry<BootstrapFactory> kBootstraps[] = {
#define MRB_BACKEND(name) {#name, make_##name##_bootstrap, ""},
#define MRB_MISSING(name, needs) {#name, nullptr, needs},
#include "bootstrap_registry.inc"
#undef MRB_BACKEND
#undef MRB_MISSING
};

std::unique_ptr<Bootstrap> make_bootstrap(std::string_view name, const BootstrapOptions& options) {
  return find_factory<BootstrapFactory>("bootstrap", name, kBootstraps)(options);
}

std::vector<RegistryLine> bootstrap_lines() {
  return registry_lines<BootstrapFactory>(kBootstraps);
}

bool started_by_mpirun() {
  // Open MPI sets the first two, MPICH and its relatives (and Slurm) the third.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

}  // namespace mrb
