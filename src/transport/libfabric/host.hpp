// Which ranks share a host, and which address of this host the others can reach.
#pragma once

#include <string>

namespace mrb {

// Equal on two ranks when they can reach each other through 127.0.0.1 and through /dev/shm: the same boot of
// the same machine, network namespace and mount of /dev/shm. Containers on one machine may share none of the
// last two.
std::string host_identity();

// The first IPv4 address of an interface that is up and is not the loopback, or "127.0.0.1" when `one_host`.
// Throws Error(environment) when there is none.
std::string tcp_source_address(bool one_host);

}  // namespace mrb
