#include "cluster/machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

namespace mrb {

namespace {

std::string first_line(const std::string& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

// The value of the first line "name : value" of a file such as /proc/cpuinfo.
std::string value_of(const std::string& file, std::string_view name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.compare(0, name.size(), name) != 0) continue;
    const std::size_t value = line.find_first_not_of(" \t:", name.size());
    if (value != std::string::npos) return line.substr(value);
  }
  return "";
}

// How many numbers a list such as "0-3,8" names.
int count_of(const std::string& list) {
  int count = 0;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0;
    if (!(std::istringstream(part) >> first)) continue;
    const std::size_t dash = part.find('-');
    const int last = dash == std::string::npos ? first : std::stoi(part.substr(dash + 1));
    count += last - first + 1;
  }
  return count;
}

// Cores by a quota in a cgroup's folder, of version 2 ("cpu.max": quota and period, or "max") or 1; nothing
// when there is no limit.
std::optional<double> quota_in(const std::string& folder) {
  double quota = 0;
  double period = 0;
  if (std::istringstream(first_line(folder + "/cpu.max")) >> quota >> period && period > 0) return quota / period;
  if (std::istringstream(first_line(folder + "/cpu.cfs_quota_us")) >> quota && quota > 0 &&
      std::istringstream(first_line(folder + "/cpu.cfs_period_us")) >> period && period > 0) {
    return quota / period;
  }
  return std::nullopt;
}

// The tightest quota on the way from this process's cgroup to the root. Inside a container the path may be
// the host's while only the container's own part is mounted, so folders that do not exist are passed over.
double quota_cores(const std::string& root) {
  double cores = std::numeric_limits<double>::infinity();
  std::ifstream stream(root + "/proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {  // "4:cpu,cpuacct:/path", or "0::/path" for version 2
    const std::size_t controllers = line.find(':');
    const std::size_t path = line.find(':', controllers + 1);
    if (controllers == std::string::npos || path == std::string::npos) continue;
    const std::string names = line.substr(controllers + 1, path - controllers - 1);
    if (!names.empty() && ("," + names + ",").find(",cpu,") == std::string::npos) continue;
    const auto mounts =
        names.empty() ? std::array<std::string, 2>{"", "/unified"} : std::array<std::string, 2>{"/" + names, "/cpu"};
    for (std::filesystem::path group = line.substr(path + 1);; group = group.parent_path()) {
      for (const std::string& mount : mounts) {
        const auto quota = quota_in(root + "/sys/fs/cgroup" + mount + group.string());
        if (quota) cores = std::min(cores, *quota);
      }
      if (!group.has_relative_path()) break;
    }
  }
  return cores;
}

constexpr std::array<std::string_view, 8> kRecordedPrefixes = {"FI_",  "NCCL_", "OFI_", "OMPI_",
                                                               "UCX_", "CUDA_", "OMP_", "MRB_"};
constexpr std::array<std::string_view, 4> kSecretWords = {"KEY", "TOKEN", "SECRET", "PASS"};

bool is_secret(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return std::any_of(kSecretWords.begin(), kSecretWords.end(),
                     [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

}  // namespace

Machine read_machine(const std::string& root) {
  Machine machine;
  machine.host = first_line(root + "/proc/sys/kernel/hostname");
  machine.kernel = first_line(root + "/proc/sys/kernel/osrelease");
  machine.processor = value_of(root + "/proc/cpuinfo", "model name");
  machine.cores_online = count_of(first_line(root + "/sys/devices/system/cpu/online"));
  machine.cpus = value_of(root + "/proc/self/status", "Cpus_allowed_list");
  std::istringstream(value_of(root + "/proc/meminfo", "MemTotal")) >> machine.memory_bytes;
  machine.memory_bytes *= 1024;  // the file has KiB
  std::istringstream(first_line(root + "/proc/loadavg")) >> machine.load_average;

  const double allowed = std::min<double>(count_of(machine.cpus), std::floor(quota_cores(root)));
  machine.cores_allowed = std::max(1, static_cast<int>(allowed));
  return machine;
}

std::map<std::string, std::string> recorded_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return recorded_environment(variables);
}

std::map<std::string, std::string> recorded_environment(std::span<const std::string> variables) {
  std::map<std::string, std::string> recorded;
  for (const std::string& variable : variables) {
    const std::string name = variable.substr(0, variable.find('='));
    const bool wanted = std::any_of(kRecordedPrefixes.begin(), kRecordedPrefixes.end(), [&](std::string_view prefix) {
      return name.compare(0, prefix.size(), prefix) == 0;
    });
    if (!wanted || name.size() == variable.size()) continue;
    recorded[name] = is_secret(name) ? "(hidden)" : variable.substr(name.size() + 1);
  }
  return recorded;
}

}  // namespace mrb
