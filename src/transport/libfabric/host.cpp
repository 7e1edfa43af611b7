#include "transport/libfabric/host.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "base/error.hpp"

namespace mrb {

std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat network = {};
  struct stat shared_memory = {};
  stat("/proc/self/ns/net", &network);
  stat("/dev/shm", &shared_memory);
  return fmt::format("{} {} {}", boot, network.st_ino, shared_memory.st_dev);
}

std::vector<Interface> tcp_interfaces(bool one_host) {
  if (one_host) return {{"loopback", "127.0.0.1"}};
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    throw Error(ErrorKind::environment, fmt::format("getifaddrs failed: {}", std::strerror(errno)),
                "use transport: mpi");
  }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
  std::map<std::string, std::string> plain;
  std::map<std::string, std::string> bridges;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool is_up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET || !is_up) continue;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr, text, sizeof text);
    const bool is_bridge = std::filesystem::exists(fmt::format("/sys/class/net/{}/bridge", entry->ifa_name));
    (is_bridge ? bridges : plain).try_emplace(entry->ifa_name, text);
  }
  std::vector<Interface> found;
  for (const auto& [name, address] : plain.empty() ? bridges : plain) found.push_back({name, address});
  if (!found.empty()) return found;
  throw Error(ErrorKind::environment, "no network interface is up with an IPv4 address that other hosts can reach",
              "look at `ip address`, or use transport: mpi");
}

}  // namespace mrb
