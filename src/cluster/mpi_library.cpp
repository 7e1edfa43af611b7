#include <fmt/format.h>
#include <mpi.h>

#include <string>

#include "cluster/machine.hpp"
#include "cluster/mpi_call.hpp"

namespace mrb {

LibraryLine describe_mpi_library() {
  return {.name = "mpi",
          .built_with = fmt::format("MPI {}.{}", MPI_VERSION, MPI_SUBVERSION),
          .loaded = mpi_library_name(),
          .needs = ""};
}

}  // namespace mrb
