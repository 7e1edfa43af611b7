#include "doctor/path_mtu.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <sstream>
#include <thread>
#include <vector>

namespace mrb {

namespace {

constexpr std::int64_t kHeaderBytes = 28;  // of IPv4 and UDP
constexpr std::size_t kDatagramMax = 65536;

struct Address {
  std::uint32_t ip = 0;  // host order
  int prefix_bits = 0;
  std::int64_t mtu = 0;
};

class Socket {
 public:
  Socket() : descriptor_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    // Never fragmented, whatever this host has heard about the path.
    const int probe = IP_PMTUDISC_PROBE;
    ::setsockopt(descriptor_, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
  }
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int get() const { return descriptor_; }
  bool wait(int timeout_ms) const {
    pollfd waiting{descriptor_, POLLIN, 0};
    return ::poll(&waiting, 1, timeout_ms) > 0;
  }

 private:
  int descriptor_;
};

std::vector<Address> own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  const Socket socket;
  std::vector<Address> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool is_usable = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
                           (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_usable) continue;
    ifreq request{};
    std::strncpy(request.ifr_name, entry->ifa_name, IFNAMSIZ - 1);
    if (::ioctl(socket.get(), SIOCGIFMTU, &request) != 0) continue;
    const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    const auto* mask = reinterpret_cast<const sockaddr_in*>(entry->ifa_netmask);
    found.push_back({ntohl(address->sin_addr.s_addr), std::popcount(ntohl(mask->sin_addr.s_addr)), request.ifr_mtu});
  }
  return found;
}

std::string dotted(std::uint32_t ip) {
  return fmt::format("{}.{}.{}.{}", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
}

// Its answer to a datagram of `bytes` on the wire, tried again in case one is lost.
bool passes(const Socket& socket, const sockaddr_in& peer, std::int64_t bytes) {
  constexpr int kTries = 3, kAnswer_ms = 100;
  static std::atomic<std::uint64_t> last{0};
  std::vector<char> datagram(static_cast<std::size_t>(bytes - kHeaderBytes));
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t number = ++last;
    std::memcpy(datagram.data(), &number, sizeof number);
    const auto sent = ::sendto(socket.get(), datagram.data(), datagram.size(), 0,
                               reinterpret_cast<const sockaddr*>(&peer), sizeof peer);
    if (sent < 0) return false;  // EMSGSIZE: this host itself knows that it does not
    std::uint64_t answer = 0;
    while (socket.wait(kAnswer_ms)) {
      if (::recv(socket.get(), &answer, sizeof answer, 0) == sizeof answer && answer == number) return true;
    }
  }
  return false;
}

}  // namespace

struct MtuProbe::Answering {
  Socket socket;
  std::jthread thread;

  void answer(const std::stop_token& stop) const {
    constexpr int kLook_ms = 50;
    std::vector<char> datagram(kDatagramMax);
    while (!stop.stop_requested()) {
      if (!socket.wait(kLook_ms)) continue;
      sockaddr_in from{};
      socklen_t size = sizeof from;
      const auto bytes =
          ::recvfrom(socket.get(), datagram.data(), datagram.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
      if (bytes < static_cast<ssize_t>(sizeof(std::uint64_t))) continue;
      ::sendto(socket.get(), datagram.data(), sizeof(std::uint64_t), 0, reinterpret_cast<const sockaddr*>(&from), size);
    }
  }
};

MtuProbe::MtuProbe() : answering_(std::make_unique<Answering>()) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t size = sizeof any;
  auto* address = reinterpret_cast<sockaddr*>(&any);
  const int descriptor = answering_->socket.get();
  if (::bind(descriptor, address, size) != 0 || ::getsockname(descriptor, address, &size) != 0) return;
  address_ = std::to_string(ntohs(any.sin_port));
  for (const Address& own : own_addresses()) address_ += fmt::format(" {} {} {}", own.ip, own.prefix_bits, own.mtu);
  answering_->thread = std::jthread([this](const std::stop_token& stop) { answering_->answer(stop); });
}

MtuProbe::~MtuProbe() = default;

PathMtu MtuProbe::try_to(const std::string& peer) const {
  std::istringstream words(peer);
  std::uint16_t port = 0;
  words >> port;
  const auto own = own_addresses();
  Address theirs, ours;
  for (Address address; theirs.mtu == 0 && words >> address.ip >> address.prefix_bits >> address.mtu;) {
    for (const Address& candidate : own) {
      const std::uint32_t mask = candidate.prefix_bits == 0 ? 0 : ~std::uint32_t{0} << (32 - candidate.prefix_bits);
      if ((candidate.ip & mask) != (address.ip & mask)) continue;
      theirs = address;
      ours = candidate;
      break;
    }
  }
  if (theirs.mtu == 0) return {};
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  ::inet_pton(AF_INET, dotted(theirs.ip).c_str(), &to.sin_addr);
  const Socket socket;
  for (const std::int64_t bytes : {ours.mtu, std::int64_t{1500}, std::int64_t{576}}) {
    if (bytes <= ours.mtu && passes(socket, to, bytes)) return {ours.mtu, bytes};
  }
  return {ours.mtu, -1};
}

}  // namespace mrb
