// Every MPI call goes through here: its code and words are kept, and nothing waits without a deadline.
#pragma once

#include <mpi.h>

#include <functional>
#include <string>
#include <string_view>

namespace mrb {

// Throws Error(environment) with the call, MPI's code and its words, unless `code` is MPI_SUCCESS.
void mpi_call(int code, std::string_view call);

// Waits until `request` is done, yielding the core between looks. Throws Error(timeout) that names
// `operation`; the request is then still alive, and so must its buffers be.
// Calls `meanwhile` after each look; what that throws ends the waiting in the same way.
void mpi_wait(MPI_Request& request, double timeout_s, std::string_view operation,
              const std::function<void()>& meanwhile = {});

// Name and version of the MPI library that is loaded: "Open MPI v4.1.4". MPI need not have started.
std::string mpi_library_name();

}  // namespace mrb
