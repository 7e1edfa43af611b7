#include "cluster/nic_counters.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

namespace mrb {

namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::uint64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

// Subfolders by name, so that every rank and every reading has them in the same order.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

void add(NicCounters& counters, const std::string& name, const fs::path& file) {
  const auto bytes = number_in(file);
  if (!bytes) return;
  counters.source += (counters.source.empty() ? "tx_bytes of " : ", ") + name;
  counters.sent_bytes += *bytes;
}

}  // namespace

NicCounters read_nic_counters(std::string_view provider, bool one_host, const std::string& root) {
  NicCounters counters;
  if (provider.find("efa") != std::string_view::npos) {
    for (const fs::path& device : folders_in(root + "/sys/class/infiniband")) {
      for (const fs::path& port : folders_in(device / "ports")) {
        add(counters, device.filename().string(), port / "hw_counters" / "tx_bytes");
      }
    }
  } else if (provider.find("tcp") != std::string_view::npos) {
    for (const fs::path& device : folders_in(root + "/sys/class/net")) {
      const std::string name = device.filename().string();
      if (fs::exists(device / "master")) continue;  // what a bond or a bridge counts again
      if ((name == "lo") == one_host) add(counters, name, device / "statistics" / "tx_bytes");
    }
  }
  return counters;
}

}  // namespace mrb
