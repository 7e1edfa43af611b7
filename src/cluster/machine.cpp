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

#include "cluster/kernel_files.hpp"

namespace mrb {

namespace {

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
std::optional<double> quota_in(const std::filesystem::path& folder) {
  double quota = 0;
  double period = 0;
  if (std::istringstream(first_line(folder / "cpu.max")) >> quota >> period && period > 0) return quota / period;
  if (std::istringstream(first_line(folder / "cpu.cfs_quota_us")) >> quota && quota > 0 &&
      std::istringstream(first_line(folder / "cpu.cfs_period_us")) >> period && period > 0) {
    return quota / period;
  }
  return std::nullopt;
}

// The tightest quota on the way from this process's cgroup to the root.
double quota_cores(const std::string& root) {
  double cores = std::numeric_limits<double>::infinity();
  for (const auto& folder : cgroup_folders(root, "cpu")) {
    if (const auto quota = quota_in(folder)) cores = std::min(cores, *quota);
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
  machine.processor = value_of(text_of(root + "/proc/cpuinfo"), "model name");
  machine.cores_online = count_of(first_line(root + "/sys/devices/system/cpu/online"));
  machine.cpus = value_of(text_of(root + "/proc/self/status"), "Cpus_allowed_list");
  std::istringstream(value_of(text_of(root + "/proc/meminfo"), "MemTotal")) >> machine.memory_bytes;
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
