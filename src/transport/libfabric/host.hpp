// Which ranks share a host, and which interfaces of this host the others can reach.
#pragma once

#include <string>
#include <vector>

namespace mrb {

// Equal on two ranks when they can reach each other through 127.0.0.1 and through /dev/shm: the same boot of
// the same machine, network namespace and mount of /dev/shm. Containers on one machine may share none of the
// last two.
std::string host_identity();

struct Interface {
  std::string name;     // "eth0"
  std::string address;  // its first IPv4 address, "10.0.0.7"
};

// The interfaces that other hosts may reach, sorted by name: those that are up, are not the loopback and have an IPv4
// address. Bridges are left out where there is anything else: they connect the containers of one host, and often have
// the same address on all hosts. When `one_host`, the loopback alone. Throws Error(environment) when there is none.
std::vector<Interface> tcp_interfaces(bool one_host);

}  // namespace mrb
