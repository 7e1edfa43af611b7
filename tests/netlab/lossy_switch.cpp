// A switch in user space that delays and loses frames, for kernels without netem.
//
//   lossy_switch plain INTERFACE...                          the sender cuts and sums its frames itself, so that they are
//                                                            whole when they come by here
//   lossy_switch DELAY_US LOSS_PER_THOUSAND INTERFACE...     until it is ended
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Mac = std::array<unsigned char, 6>;

struct Frame {
  Clock::time_point due;
  std::size_t from = 0;  // port
  std::vector<unsigned char> bytes;
};

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

void make_plain(const char* interface) {
  const int descriptor = ::socket(AF_INET, SOCK_DGRAM, 0);
  for (const unsigned command : {ETHTOOL_SGRO, ETHTOOL_SGSO, ETHTOOL_STSO, ETHTOOL_STXCSUM, ETHTOOL_SSG}) {
    ethtool_value off{command, 0};
    ifreq request{};
    std::strncpy(request.ifr_name, interface, IFNAMSIZ - 1);
    request.ifr_data = reinterpret_cast<char*>(&off);
    if (::ioctl(descriptor, SIOCETHTOOL, &request) != 0) give_up(interface);
  }
}

pollfd open_port(const char* interface) {
  const int port = ::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
  const int yes = 1;
  ::setsockopt(port, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes);
  const int room = 8 << 20;
  ::setsockopt(port, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  if (::bind(port, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) give_up(interface);
  return {port, POLLIN, 0};
}

Mac mac_at(const std::vector<unsigned char>& frame, std::size_t offset) {
  Mac mac;
  std::memcpy(mac.data(), frame.data() + offset, mac.size());
  return mac;
}

class Switch {
 public:
  Switch(std::chrono::microseconds delay, int loss_per_thousand, const std::vector<pollfd>& ports)
      : delay_(delay), loss_per_thousand_(loss_per_thousand), ports_(ports) {}

  [[noreturn]] void run() {
    while (true) {
      int timeout_ms = -1;
      if (!frames_.empty()) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(frames_.front().due - Clock::now());
        timeout_ms = static_cast<int>(std::max<std::int64_t>(0, left.count()));
      }
      ::poll(ports_.data(), ports_.size(), timeout_ms);
      for (std::size_t port = 0; port < ports_.size(); ++port) take_from(port);
      for (; !frames_.empty() && frames_.front().due <= Clock::now(); frames_.pop_front()) pass_on(frames_.front());
    }
  }

 private:
  void take_from(std::size_t port) {
    constexpr int kAtOnce = 64;  // then the other ports have their turn
    constexpr std::size_t kHeaderBytes = 14;
    std::vector<unsigned char> buffer(65536);
    for (int i = 0; i < kAtOnce; ++i) {
      const auto bytes = ::recv(ports_[port].fd, buffer.data(), buffer.size(), 0);
      if (bytes < static_cast<ssize_t>(kHeaderBytes)) return;
      const std::vector<unsigned char> frame(buffer.begin(), buffer.begin() + bytes);
      port_of_[mac_at(frame, 6)] = port;
      if (static_cast<int>(random_() % 1000) >= loss_per_thousand_)
        frames_.push_back({Clock::now() + delay_, port, frame});
    }
  }

  // To the port where its target was last seen; to all others when it has not been, or is everyone.
  void pass_on(const Frame& frame) {
    const auto known = port_of_.find(mac_at(frame.bytes, 0));
    for (std::size_t port = 0; port < ports_.size(); ++port) {
      const bool is_for = port != frame.from && (known == port_of_.end() || known->second == port);
      if (is_for) ::send(ports_[port].fd, frame.bytes.data(), frame.bytes.size(), 0);
    }
  }

  std::chrono::microseconds delay_;
  int loss_per_thousand_;
  std::vector<pollfd> ports_;
  std::deque<Frame> frames_;  // in the order of their coming, which is that of their leaving
  std::map<Mac, std::size_t> port_of_;
  std::mt19937 random_{7};
};

}  // namespace

int main(int count, char** words) {
  const std::vector<const char*> interfaces(words + std::min(count, 3), words + count);
  if (count > 2 && std::string(words[1]) == "plain") {
    for (int i = 2; i < count; ++i) make_plain(words[i]);
    return 0;
  }
  if (interfaces.empty()) return std::fputs("usage: lossy_switch DELAY_US LOSS_PER_THOUSAND INTERFACE...\n", stderr), 2;
  std::vector<pollfd> ports;
  for (const char* interface : interfaces) ports.push_back(open_port(interface));
  Switch(std::chrono::microseconds(std::atol(words[1])), std::atoi(words[2]), ports).run();
}
