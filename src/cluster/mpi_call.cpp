#include "cluster/mpi_call.hpp"

#include <fmt/format.h>
#include <sched.h>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"

namespace mrb {

void mpi_call(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, words, &length);
  throw Error(ErrorKind::environment, fmt::format("{} failed with code {}: {}", call, code, words),
              "look at what mpirun printed, and try the same command on one node");
}

void mpi_wait(MPI_Request& request, double timeout_s, std::string_view operation,
              const std::function<void()>& meanwhile) {
  const std::int64_t deadline_ns = steady_now_ns() + s_to_ns(timeout_s);
  for (int done = 0;;) {
    mpi_call(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done) return;
    if (meanwhile) meanwhile();
    if (steady_now_ns() >= deadline_ns) {
      throw Error(ErrorKind::timeout,
                  fmt::format("{}: waited {} s, and not all ranks have come to it", operation, timeout_s),
                  "look for a rank that has stopped; if all are alive, raise transport.timeout_s");
    }
    sched_yield();  // more ranks than cores is usual on a laptop
  }
}

std::string mpi_library_name() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  mpi_call(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  const std::string words(text, static_cast<std::size_t>(length));
  return words.substr(0, words.find_first_of(",\n"));
}

}  // namespace mrb
