// A thread that polls a transport while its rank computes, for libraries that move nothing unless they are called.
#pragma once

#include <memory>

#include "transport/transport.hpp"

namespace mrb {

// Calls to the transport, and those of the thread, are one at a time. What fails in the thread is thrown by the next
// try_put() or poll(). Not for transports over MPI, which takes calls from one thread alone.
std::unique_ptr<Transport> with_progress_thread(std::unique_ptr<Transport>);

}  // namespace mrb
