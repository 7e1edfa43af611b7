#include "doctor/probes.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <sstream>
#include <thread>
#include <vector>

#include "cluster/machine.hpp"
#include "doctor/nvml.hpp"

namespace mrb {

namespace {

std::string recorded(const std::string& root, const std::string& name) {
  std::ifstream file(root + "/probes/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr const char* kSshPort = "22";
constexpr int kConnect_ms = 2000;
constexpr auto kAllHosts = std::chrono::seconds(8);

// "ok", or why sshd does not take a connection.
std::string try_host(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(host.c_str(), kSshPort, &hints, &found); code != 0) {
    return fmt::format("its name is not resolved: {}", gai_strerror(code));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int descriptor = ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return std::strerror(errno);
  int error = ::connect(descriptor, found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    pollfd waiting{descriptor, POLLOUT, 0};
    socklen_t size = sizeof error;
    error = ::poll(&waiting, 1, kConnect_ms) == 0 ? ETIMEDOUT : 0;
    if (error == 0) ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  ::close(descriptor);
  return error == 0 ? "ok" : fmt::format("port {} does not answer: {}", kSshPort, std::strerror(error));
}

}  // namespace

std::string libraries_probe(const std::string& root) {
  if (!root.empty()) return recorded(root, "libraries");
  std::string text;
  for (const LibraryLine& line : library_lines()) {
    text += fmt::format("{}|{}|{}|{}\n", line.name, line.built_with, line.loaded, line.needs);
  }
  return text;
}

std::string gpus_probe(const std::string& root) {
  return root.empty() ? nvml_text() : recorded(root, "gpus");
}

std::string shm_probe(const std::string& root) {
  if (!root.empty()) return recorded(root, "shm");
  struct statfs state {};
  if (::statfs("/dev/shm", &state) != 0) return "";
  constexpr long kTmpfs = 0x01021994;
  return fmt::format("{} {}\n", state.f_type == kTmpfs ? "tmpfs" : "other",
                     static_cast<std::uint64_t>(state.f_bavail) * static_cast<std::uint64_t>(state.f_bsize));
}

std::string hosts_probe(const std::string& root, const std::string& hosts) {
  if (!root.empty()) return recorded(root, "hosts");
  // A name service that does not answer blocks getaddrinfo() for longer than anybody wants to wait; such a thread is
  // left behind, with all that it uses.
  std::vector<std::pair<std::string, std::future<std::string>>> answers;
  std::istringstream lines(hosts);
  for (std::string host; std::getline(lines, host);) {
    auto promise = std::make_shared<std::promise<std::string>>();
    answers.emplace_back(host, promise->get_future());
    std::thread([promise, host] { promise->set_value(try_host(host)); }).detach();
  }
  const auto until = std::chrono::steady_clock::now() + kAllHosts;
  std::string text;
  for (auto& [host, answer] : answers) {
    const bool is_there = answer.wait_until(until) == std::future_status::ready;
    text += fmt::format("{} {}\n", host, is_there ? answer.get() : "no answer of the name service");
  }
  return text;
}

}  // namespace mrb
