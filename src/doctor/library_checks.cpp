// Which libraries a rank has loaded, and which variables change what they do.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "doctor/check.hpp"
#include "doctor/version_number.hpp"

namespace mrb {

namespace {

const LibraryLine* library(const Facts& facts, const std::string& name) {
  for (const LibraryLine& line : facts.libraries) {
    if (line.name == name) return &line;
  }
  return nullptr;
}

constexpr const char* kNotLoaded = "the library is not in this build";

// Device RDMA is on by default from 1.18 on; Debian 12 and Ubuntu 22.04 bring 1.17 and 1.11.
bool is_old_libfabric(const LibraryLine& line) {
  constexpr std::array<int, 3> kOldest = {1, 18, 0};
  return version_number(line.loaded) < kOldest;
}

Outcome libfabric_version(const Facts& facts) {
  const LibraryLine* line = library(facts, "libfabric");
  if (line == nullptr || !line->needs.empty()) {
    return facts.provider == "efa" ? found("this build has no libfabric, and EFA is reached by nothing else")
                                   : not_looked(kNotLoaded);
  }
  if (!facts.expects_efa()) return fine();
  if (is_old_libfabric(*line)) {
    const auto file = facts.library_files.find("libfabric");
    return found(fmt::format("libfabric {} is loaded{}", line->loaded.substr(0, line->loaded.find(';')),
                             file == facts.library_files.end() ? "" : " from " + file->second));
  }
  return fine();
}

Outcome libfabric_path(const Facts& facts) {
  if (!facts.expects_efa()) return fine();
  const auto file = facts.library_files.find("libfabric");
  if (file == facts.library_files.end()) return not_looked("/proc/self/maps names no libfabric");
  const LibraryLine* line = library(facts, "libfabric");
  const bool is_named_already = line != nullptr && !line->loaded.empty() && is_old_libfabric(*line);
  if (file->second.starts_with("/opt/amazon/efa/") || is_named_already) return fine();
  return found(fmt::format("libfabric comes from {}", file->second));
}

Outcome libfabric_build(const Facts& facts) {
  const LibraryLine* line = library(facts, "libfabric");
  if (line == nullptr || !line->needs.empty() || line->loaded.empty()) return not_looked(kNotLoaded);
  auto built = version_number(line->built_with), loaded = version_number(line->loaded);
  built[2] = loaded[2] = 0;
  if (built <= loaded) return fine();
  return found(fmt::format("built with libfabric {}, and {}.{} is loaded", line->built_with, loaded[0], loaded[1]));
}

Outcome efa_provider(const Facts& facts) {
  const LibraryLine* line = library(facts, "libfabric");
  if (!facts.expects_efa()) return fine();
  if (line == nullptr || line->loaded.empty()) return not_looked(kNotLoaded);
  const std::size_t list = line->loaded.find("providers here:");
  if (list != std::string::npos && line->loaded.find("efa", list) != std::string::npos) return fine();
  return found(fmt::format("libfabric offers no efa provider here ({}), with {} EFA devices in /sys/class/infiniband",
                           list == std::string::npos ? line->loaded : line->loaded.substr(list), facts.efa_count()));
}

// What is asked for is used or refused by the transport itself; here is what asks for too little.
Outcome efa_unused(const Facts& facts) {
  if (facts.efa_count() == 0 || facts.transport.empty()) return fine();
  const bool is_asked = facts.transport == "nccl" || facts.provider == "efa";
  if (is_asked || facts.transport == "loopback") return fine();
  return found(fmt::format("the configuration asks for transport {}{}{}, on a node with {} EFA devices",
                           facts.transport, facts.provider.empty() ? "" : "/", facts.provider, facts.efa_count()));
}

Outcome provider_variables(const Facts& facts) {
  const std::string providers = facts.variable("FI_PROVIDER");
  if (facts.expects_efa() && !providers.empty() &&
      (providers[0] == '^') == (providers.find("efa") != std::string::npos)) {
    return found(fmt::format("FI_PROVIDER={} keeps libfabric from efa", providers), {}, "unset FI_PROVIDER");
  }
  std::string net = facts.variable("NCCL_NET");
  std::transform(net.begin(), net.end(), net.begin(), [](unsigned char c) { return std::tolower(c); });
  if (facts.expects_efa() && net == "socket") {
    return found("NCCL_NET=Socket makes NCCL use TCP", {}, "unset NCCL_NET, or set it to AWS Libfabric");
  }
  const std::string plugin = facts.variable("NCCL_NET_PLUGIN");
  if (facts.expects_efa() && plugin.find('/') != std::string::npos) {
    return found(fmt::format("NCCL_NET_PLUGIN={} is a path: NCCL does not find it and uses TCP", plugin), {},
                 "set NCCL_NET_PLUGIN=ofi, the short name");
  }
  return fine();
}

Outcome nccl_log(const Facts& facts) {
  if (facts.variable("NCCL_DEBUG_FILE").empty()) return not_looked("NCCL_DEBUG_FILE is not set");
  if (facts.nccl_log.empty()) return not_looked("NCCL's log does not say yet which network it uses");
  constexpr const char* kBad[] = {"using network socket",           "net/socket",      "net/ib : no device found",
                                  "only efa provider is supported", "no plugin found", "no eligible providers"};
  for (const std::string& line : facts.nccl_log) {
    std::string lower = line;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const char* bad : kBad) {
      if (facts.expects_efa() && lower.find(bad) != std::string::npos) return found("NCCL's log says: " + line);
    }
  }
  return fine();
}

Outcome device_rdma(const Facts& facts) {
  if (facts.variable("FI_EFA_USE_DEVICE_RDMA") != "0") return fine();
  return found("FI_EFA_USE_DEVICE_RDMA=0 makes libfabric emulate writes by messages");
}

Outcome fork_safety(const Facts& facts) {
  std::vector<std::string> set;
  for (const auto& [name, value] : facts.environment) {
    const bool is_verbs = name.starts_with("RDMAV_") || name == "IBV_FORK_SAFE";
    if (is_verbs) set.push_back(name + "=" + value);
  }
  const bool is_efa_safe = !facts.variable("FI_EFA_FORK_SAFE").empty() && facts.variable("FI_EFA_FORK_SAFE") != "0";
  if (is_efa_safe && facts.variable("FI_EFA_USE_HUGE_PAGE") == "1") {
    return found("FI_EFA_FORK_SAFE and FI_EFA_USE_HUGE_PAGE=1 are both set, and libfabric aborts", Severity::refuse);
  }
  if (set.empty() && !is_efa_safe) return fine();
  if (is_efa_safe) set.push_back("FI_EFA_FORK_SAFE=" + facts.variable("FI_EFA_FORK_SAFE"));
  constexpr std::array<int, 3> kForksSafely = {5, 15, 0};
  if (set.size() == 1 && is_efa_safe && version_number(facts.kernel) < kForksSafely) return fine();
  return found(fmt::format("{} on kernel {}", fmt::join(set, ", "), facts.kernel));
}

// What old recipes set and what changes results without a word in them.
Outcome tuning_variables(const Facts& facts) {
  std::vector<std::string> set;
  for (const auto& [name, value] : facts.environment) {
    constexpr const char* kNames[] = {"NCCL_PROTO", "NCCL_ALGO", "NCCL_BUFFSIZE", "FI_EFA_IFACE"};
    const bool is_named = std::any_of(std::begin(kNames), std::end(kNames), [&](const char* n) { return name == n; });
    // p6-b300 has 18 verbs devices of which 16 are EFA, and this is how NCCL is told.
    const bool is_ib = name.starts_with("NCCL_IB_") && !(name == "NCCL_IB_HCA" && value == "rdmap");
    if (is_named || is_ib) set.push_back(name + "=" + value);
  }
  if (!facts.nccl_conf.empty()) set.push_back("/etc/nccl.conf: " + facts.nccl_conf);
  if (set.empty()) return fine();
  return found(fmt::format("{}", fmt::join(set, ", ")));
}

Outcome mpi_network(const Facts& facts) {
  const std::string pml = facts.variable("OMPI_MCA_pml"), mtl = facts.variable("OMPI_MCA_mtl");
  if (!facts.expects_efa()) return fine();
  if (pml == "cm" || mtl == "ofi") {
    return found(fmt::format("Open MPI's own messages go over libfabric (pml '{}', mtl '{}')", pml, mtl));
  }
  return fine();
}

constexpr const char* kEfaPath =
    "put /opt/amazon/efa/lib first in LD_LIBRARY_PATH, and pass it on (mpirun -x LD_LIBRARY_PATH)";

constexpr Check kChecks[] = {
    {"libfabric-version", Scope::rank, Severity::refuse, libfabric_version, "fi_version()",
     "an old libfabric has no device RDMA, or no EFA at all", kEfaPath},
    {"libfabric-path", Scope::rank, Severity::warn, libfabric_path, "/proc/self/maps",
     "the distribution's libfabric is not the one that EFA's installer brings and AWS tests", kEfaPath},
    {"libfabric-build", Scope::rank, Severity::refuse, libfabric_build, "version of the headers, fi_version()",
     "code built for a newer libfabric fails in calls that the older one lacks",
     "load the libfabric that this program was built with, or build it in the image it runs in"},
    {"efa-provider", Scope::rank, Severity::refuse, efa_provider, "fi_getinfo() of provider efa",
     "without the provider nothing can go over EFA",
     "request vpc.amazonaws.com/efa in the pod, look that the device plugin runs on this node, and do not mount the "
     "host's /dev/infiniband"},
    {"efa-unused", Scope::rank, Severity::warn, efa_unused, "the configuration, /sys/class/infiniband",
     "numbers from TCP say nothing about EFA", "use --transport libfabric --transport-provider efa"},
    {"provider-variables", Scope::rank, Severity::refuse, provider_variables, "FI_PROVIDER, NCCL_NET, NCCL_NET_PLUGIN",
     "these send all traffic over TCP without a word", "unset it"},
    {"nccl-log", Scope::rank, Severity::refuse, nccl_log, "the file of NCCL_DEBUG_FILE",
     "NCCL falls back to TCP sockets without an error",
     "install the OFI plugin (/opt/amazon/ofi-nccl/lib in LD_LIBRARY_PATH) and set NCCL_NET_PLUGIN=ofi"},
    {"device-rdma", Scope::rank, Severity::refuse, device_rdma, "FI_EFA_USE_DEVICE_RDMA",
     "an emulated write needs the target's CPU, and is another thing to measure", "unset FI_EFA_USE_DEVICE_RDMA"},
    {"fork-safety", Scope::rank, Severity::warn, fork_safety,
     "RDMAV_*, IBV_FORK_SAFE, FI_EFA_FORK_SAFE, the kernel's version",
     "from kernel 5.15 on nothing is needed, and RDMAV_* slows down or breaks registration", "unset these variables"},
    {"tuning-variables", Scope::rank, Severity::warn, tuning_variables,
     "NCCL_PROTO, NCCL_ALGO, NCCL_BUFFSIZE, NCCL_IB_*, FI_EFA_IFACE, /etc/nccl.conf",
     "the OFI plugin sets these for the instance type; values from old recipes make another benchmark of it",
     "unset them, or give them to all runs that are to be compared"},
    {"mpi-network", Scope::rank, Severity::note, mpi_network, "OMPI_MCA_pml, OMPI_MCA_mtl",
     "MPI's own messages share EFA with those that are measured", "use --mca pml ^cm,ucx --mca btl tcp,self"},
};

}  // namespace

std::span<const Check> library_checks() {
  return kChecks;
}

}  // namespace mrb
