#include "doctor/read_facts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "doctor/probes.hpp"

namespace mrb {

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::string> lines_of(const std::string& text, char end = '\n') {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line, end);) lines.push_back(line);
  return lines;
}

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
  return line;
}

std::optional<std::int64_t> number_in(std::string_view text) {
  std::int64_t number = 0;
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  return number;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// The rest of the first line that begins with `name`, without blanks and colons in front.
std::string value_of(const std::string& text, std::string_view name) {
  for (const std::string& line : lines_of(text)) {
    if (line.compare(0, name.size(), name) != 0) continue;
    const std::size_t value = line.find_first_not_of(" \t:", name.size());
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

// This process's groups of one controller, the innermost first, of cgroup version 2 and 1. In a container the path may be
// the host's while only the container's own part is mounted.
std::vector<fs::path> cgroups(const std::string& root, const std::string& controller) {
  std::vector<fs::path> folders;
  for (const std::string& line : lines_of(text_of(root + "/proc/self/cgroup"))) {
    const std::size_t names_at = line.find(':') + 1, path_at = line.find(':', names_at) + 1;
    if (names_at == 0 || path_at == 0) continue;
    const std::string names = line.substr(names_at, path_at - 1 - names_at);
    if (!names.empty() && ("," + names + ",").find("," + controller + ",") == std::string::npos) continue;
    const std::array<std::string, 2> mounts = {names.empty() ? "" : "/" + names,
                                               names.empty() ? "/unified" : "/" + controller};
    for (fs::path group = line.substr(path_at);; group = group.parent_path()) {
      for (const std::string& mount : mounts) folders.emplace_back(root + "/sys/fs/cgroup" + mount + group.string());
      if (!group.has_relative_path()) break;
    }
  }
  return folders;
}

// The tightest limit; version 1 writes "none" as a number near 2^63.
std::int64_t limit_of(const std::string& root, const std::string& controller, const std::string& v2,
                      const std::string& v1) {
  constexpr std::int64_t kNone = std::int64_t{1} << 60;
  std::int64_t limit = kUnknown;
  for (const fs::path& folder : cgroups(root, controller)) {
    for (const std::string& name : {v2, v1}) {
      const std::string text = first_line(folder / name);
      if (text.empty()) continue;
      std::int64_t value = text == "max" ? kUnlimited : number_in(text).value_or(kUnlimited);
      if (value > kNone) value = kUnlimited;
      limit = limit == kUnknown ? value : std::min(limit, value);
    }
  }
  return limit;
}

// A line "name value" of the innermost group that has the file.
std::int64_t counter_of(const std::string& root, const std::string& controller, const std::vector<std::string>& files,
                        const std::string& name) {
  for (const fs::path& folder : cgroups(root, controller)) {
    for (const std::string& file : files) {
      if (const auto number = number_in(value_of(text_of(folder / file), name + " "))) return *number;
    }
  }
  return kUnknown;
}

bool matters(const std::string& name) {
  static const std::set<std::string> kNames = {"LD_LIBRARY_PATH", "LD_PRELOAD", "K_MPI_JOB_ROLE"};
  return kNames.contains(name) || name.starts_with("RDMAV_") || name.starts_with("IBV_") || name.starts_with("PRTE_") ||
         name.starts_with("PMIX_MCA_");
}

void read_environment(Facts& facts, const std::string& root) {
  const auto variables = lines_of(text_of(root + "/proc/self/environ"), '\0');
  facts.environment = recorded_environment(variables);
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    const std::string name = variable.substr(0, equals);
    if (equals != std::string::npos && matters(name)) facts.environment[name] = variable.substr(equals + 1);
  }
  facts.local_rank = static_cast<int>(number_in(facts.variable("OMPI_COMM_WORLD_LOCAL_RANK")).value_or(0));
  facts.local_ranks = static_cast<int>(number_in(facts.variable("OMPI_COMM_WORLD_LOCAL_SIZE")).value_or(1));
  for (const std::string& line : lines_of(text_of(root + "/etc/nccl.conf"))) {
    if (!line.empty() && line[0] != '#') facts.nccl_conf += (facts.nccl_conf.empty() ? "" : ", ") + line;
  }
}

// Labels of the downward API, "key=\"value\"" a line.
std::string label_of(const std::string& text, const std::string& key) {
  std::string value = value_of(text, key + "=");
  std::erase(value, '"');
  return value;
}

void read_place(Facts& facts, const std::string& root) {
  facts.vendor = first_line(root + "/sys/class/dmi/id/sys_vendor");
  const std::string labels = text_of(root + "/etc/podinfo/labels");
  facts.instance_type = label_of(labels, "node.kubernetes.io/instance-type");
  if (facts.instance_type.empty() && facts.vendor == "Amazon EC2") {
    facts.instance_type = first_line(root + "/sys/class/dmi/id/product_name");
  }
  facts.zone = label_of(labels, "topology.k8s.aws/zone-id");
  if (facts.zone.empty()) facts.zone = label_of(labels, "topology.kubernetes.io/zone");
  facts.network_node = label_of(labels, "topology.k8s.aws/network-node-layer-3");
  facts.capacity_block = label_of(labels, "topology.k8s.aws/capacity-block-id");
  for (const std::string& line : lines_of(text_of(root + "/etc/mpi/hostfile"))) {
    // Open MPI: "HOST slots=N", Intel and MPICH: "HOST:N".
    const std::string host = line.substr(0, line.find_first_of(" \t:"));
    if (!host.empty() && host[0] != '#') facts.hostfile.push_back(host);
  }
}

void read_cores(Facts& facts, const std::string& root) {
  const Machine machine = read_machine(root);
  facts.host = machine.host;
  facts.kernel = machine.kernel;
  facts.cpus = machine.cpus;
  facts.cores_allowed = machine.cores_allowed;
  const fs::path nodes = root + "/sys/devices/system/node";
  for (const std::string& name : names_in(nodes)) {
    if (name.size() > 4 && name.starts_with("node") && std::isdigit(static_cast<unsigned char>(name[4]))) {
      facts.cpus_of_numa_node[name.substr(4)] = first_line(nodes / name / "cpulist");
    }
  }
  facts.cpu_periods = counter_of(root, "cpu", {"cpu.stat"}, "nr_periods");
  facts.cpu_periods_throttled = counter_of(root, "cpu", {"cpu.stat"}, "nr_throttled");
}

// Names that libfabric's shm ("PID:0:0") and others leave behind; those with the id of a process that is gone.
std::vector<std::string> stale_shm(const std::string& root) {
  std::vector<std::string> stale;
  for (const std::string& name : names_in(root + "/dev/shm")) {
    const bool is_shm_provider = !name.empty() && name.find(':') != std::string::npos && number_in(name);
    const bool is_dead = is_shm_provider && !fs::exists(root + "/proc/" + std::to_string(*number_in(name)));
    if (is_dead || name.starts_with("nccl-")) stale.push_back(name);
  }
  return stale;
}

void read_memory(Facts& facts, const std::string& root) {
  facts.memory_limit_bytes = limit_of(root, "memory", "memory.max", "memory.limit_in_bytes");
  facts.oom_kills = counter_of(root, "memory", {"memory.events", "memory.oom_control"}, "oom_kill");
  const std::string memlock = value_of(text_of(root + "/proc/self/limits"), "Max locked memory");
  if (!memlock.empty())
    facts.memlock_bytes = memlock.starts_with("unlimited") ? kUnlimited : number_in(memlock).value_or(kUnknown);
  constexpr std::uint64_t kIpcLock = 1u << 14;  // CAP_IPC_LOCK
  std::uint64_t capabilities = 0;
  std::istringstream(value_of(text_of(root + "/proc/self/status"), "CapEff")) >> std::hex >> capabilities;
  facts.has_ipc_lock = (capabilities & kIpcLock) != 0;

  std::istringstream shm(shm_probe(root));
  if (!(shm >> facts.shm_type >> facts.shm_free_bytes)) facts.shm_free_bytes = kUnknown;
  facts.shm_stale = stale_shm(root);

  const std::string memory = text_of(root + "/proc/meminfo");
  const auto pages = number_in(value_of(memory, "HugePages_Free")), kib = number_in(value_of(memory, "Hugepagesize"));
  if (pages && kib) {
    facts.huge_pages_bytes = *pages * *kib * 1024;
    const std::int64_t limit = limit_of(root, "hugetlb", "hugetlb.2MB.max", "hugetlb.2MB.limit_in_bytes");
    if (limit != kUnknown) facts.huge_pages_bytes = std::min(facts.huge_pages_bytes, limit);
  }
}

// Where a PCI function hangs: "pci0000:00/0000:00:01.0/0000:01:00.0".
std::string pci_path_of(const std::string& root, std::string address) {
  std::transform(address.begin(), address.end(), address.begin(), [](unsigned char c) { return std::tolower(c); });
  if (address.size() > 12) address = address.substr(address.size() - 12);  // NVML writes 8 digits of the domain
  std::error_code error;
  const std::string target = fs::read_symlink(root + "/sys/bus/pci/devices/" + address, error).string();
  const std::size_t begin = target.find("pci");
  return error || begin == std::string::npos ? "" : target.substr(begin);
}

RdmaDevice read_device(const std::string& root, const std::string& name) {
  const fs::path folder = fs::path(root + "/sys/class/infiniband") / name;
  const std::string uevent = text_of(folder / "device/uevent");
  RdmaDevice device{.name = name, .driver = value_of(uevent, "DRIVER=")};
  if (device.driver.empty()) {
    std::error_code error;
    device.driver = fs::read_symlink(folder / "device/driver", error).filename().string();
  }
  const fs::path port = folder / "ports/1";
  device.port_state = first_line(port / "state");
  device.physical_state = first_line(port / "phys_state");
  std::istringstream(first_line(port / "rate")) >> device.gbit_per_s;
  device.p2p = first_line(folder / "device/p2p");
  device.pci_path = pci_path_of(root, value_of(uevent, "PCI_SLOT_NAME="));
  for (const std::string& counter : names_in(port / "hw_counters")) {
    if (const auto value = number_in(first_line(port / "hw_counters" / counter)); value && *value >= 0) {
      device.counters[counter] = static_cast<std::uint64_t>(*value);
    }
  }
  return device;
}

void read_fabric(Facts& facts, const std::string& root) {
  for (const std::string& name : names_in(root + "/sys/class/infiniband")) {
    facts.devices.push_back(read_device(root, name));
  }
  for (const std::string& node : names_in(root + "/dev/infiniband")) {
    if (!node.starts_with("uverbs")) continue;
    facts.uverbs = std::max<std::int64_t>(0, facts.uverbs) + 1;
    const std::string owner = first_line(root + "/sys/class/infiniband_verbs/" + node + "/ibdev");
    const auto device =
        std::find_if(facts.devices.begin(), facts.devices.end(), [&](const auto& d) { return d.name == owner; });
    if (device != facts.devices.end() && !device->is_efa()) facts.foreign_uverbs.push_back(node + " of " + owner);
  }
  if (facts.uverbs == kUnknown && fs::exists(root + "/dev")) facts.uverbs = 0;
  facts.efa_driver_version = first_line(root + "/sys/module/efa/version");
  facts.has_gdrdrv = fs::exists(root + "/dev/gdrdrv");
  for (const std::string& name : names_in(root + "/sys/class/net")) {
    const auto mtu = number_in(first_line(root + "/sys/class/net/" + name + "/mtu"));
    if (name != "lo" && mtu) facts.mtu[name] = *mtu;
  }
}

// "NAME|key=value|...", see gpus_probe().
Gpu gpu_of(const std::string& root, const std::string& line) {
  Gpu gpu;
  const std::map<std::string, std::int64_t*> numbers = {{"memory_used_bytes", &gpu.memory_used_bytes},
                                                        {"memory_total_bytes", &gpu.memory_total_bytes},
                                                        {"persistence", &gpu.persistence},
                                                        {"mig", &gpu.mig},
                                                        {"ecc_uncorrected", &gpu.ecc_uncorrected},
                                                        {"remap_pending", &gpu.remap_pending},
                                                        {"remap_failure", &gpu.remap_failure},
                                                        {"clock_reasons", &gpu.clock_reasons},
                                                        {"fabric_state", &gpu.fabric_state},
                                                        {"fabric_status", &gpu.fabric_status}};
  const auto parts = lines_of(line, '|');
  gpu.name = parts.front();
  for (const std::string& part : parts) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = part.substr(0, equals), value = part.substr(equals + 1);
    if (key == "pci") gpu.pci_address = value;
    if (const auto number = numbers.find(key); number != numbers.end())
      *number->second = number_in(value).value_or(kUnknown);
  }
  gpu.pci_path = pci_path_of(root, gpu.pci_address);
  if (!gpu.pci_path.empty()) {
    gpu.numa_node = number_in(first_line(root + "/sys/devices/" + gpu.pci_path + "/numa_node")).value_or(kUnknown);
  }
  return gpu;
}

void read_gpus(Facts& facts, const std::string& root) {
  for (const std::string& line : lines_of(gpus_probe(root))) {
    if (line.starts_with("driver ")) {
      std::string word;
      std::istringstream(line) >> word >> facts.gpu_driver >> word >> facts.cuda_of_driver;
    } else if (!line.empty()) {
      facts.gpus.push_back(gpu_of(root, line));
    }
  }
  facts.gpu_driver_kind = first_line(root + "/proc/driver/nvidia/version");
}

void read_libraries(Facts& facts, const std::string& root) {
  for (const std::string& line : lines_of(libraries_probe(root))) {
    auto parts = lines_of(line, '|');
    parts.resize(4);
    facts.libraries.push_back({parts[0], parts[1], parts[2], parts[3]});
  }
  for (const std::string& line : lines_of(text_of(root + "/proc/self/maps"))) {
    const std::size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const fs::path file = line.substr(path);
    for (const char* name : {"libfabric", "libmpi", "libnccl"}) {
      if (file.filename().string().starts_with(std::string(name) + ".so")) facts.library_files[name] = file.string();
    }
  }
}

// The kernel's log is a stream that never ends: what is there now is read, record by record, and nothing is waited for.
void read_kernel_log(Facts& facts, const std::string& root) {
  const int log = ::open((root + "/dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (log < 0) return;
  facts.has_kernel_log = true;
  constexpr int kRecordsMax = 100000;
  char record[8192];
  for (int i = 0; i < kRecordsMax; ++i) {
    const auto bytes = ::read(log, record, sizeof record);
    if (bytes < 0 && errno == EPIPE) continue;  // older records were overwritten
    if (bytes <= 0) break;
    for (const std::string& line : lines_of(std::string(record, static_cast<std::size_t>(bytes)))) {
      const std::size_t xid = line.find("NVRM: Xid");
      if (xid != std::string::npos) facts.xids.push_back(line.substr(xid));
    }
  }
  ::close(log);
}

// NCCL writes its log where NCCL_DEBUG_FILE says, with the host for %h and the process for %p.
void read_nccl_log(Facts& facts, const std::string& root) {
  const fs::path pattern = facts.variable("NCCL_DEBUG_FILE");
  if (pattern.empty()) return;
  const std::string front = pattern.filename().string().substr(0, pattern.filename().string().find('%'));
  constexpr std::size_t kLinesMax = 64;
  for (const std::string& name : names_in(root + pattern.parent_path().string())) {
    if (!name.starts_with(front)) continue;
    std::ifstream file(root + pattern.parent_path().string() + "/" + name);
    for (std::string line; facts.nccl_log.size() < kLinesMax && std::getline(file, line);) {
      std::string lower = line;
      std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
      for (const char* word : {"selected provider", "using network", "net/", "no plugin found", "provider is supported",
                               "no eligible providers"}) {
        if (lower.find(word) == std::string::npos) continue;
        facts.nccl_log.push_back(line);
        break;
      }
    }
  }
}

void try_hosts(Facts& facts, const std::string& root) {
  std::string hosts;
  for (const std::string& host : facts.hostfile) hosts += host + "\n";
  for (const std::string& line : lines_of(hosts_probe(root, hosts))) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos) continue;
    facts.has_tried_hosts = true;
    if (line.substr(blank + 1) != "ok") facts.unreachable[line.substr(0, blank)] = line.substr(blank + 1);
  }
}

}  // namespace

Facts read_facts(const std::string& root, TryHosts trying) {
  Facts facts;
  read_environment(facts, root);
  read_place(facts, root);
  read_cores(facts, root);
  read_memory(facts, root);
  read_fabric(facts, root);
  read_gpus(facts, root);
  read_libraries(facts, root);
  read_kernel_log(facts, root);
  read_nccl_log(facts, root);
  if (trying == TryHosts::yes && !facts.hostfile.empty()) try_hosts(facts, root);
  return facts;
}

}  // namespace mrb
