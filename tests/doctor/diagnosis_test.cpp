#include "doctor/diagnosis.hpp"

#include <algorithm>
#include <set>

#include "doctor/node_tree.hpp"
#include "doctor/node_type.hpp"
#include "doctor/read_facts.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

std::vector<std::string> ids_of(const Diagnosis& diagnosis) {
  std::vector<std::string> ids;
  for (const Finding& finding : diagnosis.findings) ids.push_back(finding.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::string words_of(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& finding : diagnosis.findings)
    text += severity_text(finding.severity) + " " + finding.id + ": " + finding.problem + "\n";
  return text;
}

Facts asked_for_efa(const NodeTree& tree) {
  Facts facts = read_facts(tree.root(), TryHosts::yes);
  facts.transport = "libfabric";
  facts.provider = "efa";
  return facts;
}

struct Fault {
  const char* what;
  const char* overlay;
  std::vector<std::string> ids;
  Severity severity;
};

constexpr auto kWarn = Severity::warn;
constexpr auto kRefuse = Severity::refuse;

const std::vector<Fault> kFaults = {
    {"Debian's libfabric, by a wrong LD_LIBRARY_PATH",
     "/probes/libraries = libfabric|1.17|1.17.0; providers here: tcp, shm, efa|\n"
     "/proc/self/maps = 7f0-7f1 r-xp 0 00:00 1 /usr/lib/x86_64-linux-gnu/libfabric.so.1.19.0\n",
     {"libfabric-version"},
     kRefuse},
    {"built for a newer libfabric",
     "/probes/libraries = libfabric|2.4|2.1.0; providers here: tcp, shm, efa|\n",
     {"libfabric-build"},
     kRefuse},
    {"the distribution's libfabric",
     "/proc/self/maps = 7f0-7f1 r-xp 0 00:00 1 /usr/lib64/libfabric.so.1.29.0\n",
     {"libfabric-path"},
     kWarn},
    {"a device hangs elsewhere",
     "/sys/class/infiniband/rdmap0s0/device/uevent = DRIVER=efa\\nPCI_SLOT_NAME=0000:10:1b.0\n",
     {"nic-of-gpu"},
     kWarn},
    {"no efa provider",
     "/probes/libraries = libfabric|2.1|2.1.0; providers here: tcp, shm|\n",
     {"efa-provider"},
     kRefuse},
    {"FI_PROVIDER=tcp", "/proc/self/environ = FI_PROVIDER=tcp\\0\n", {"provider-variables"}, kRefuse},
    {"FI_PROVIDER=^efa", "/proc/self/environ = FI_PROVIDER=^efa\\0\n", {"provider-variables"}, kRefuse},
    {"NCCL_NET=Socket", "/proc/self/environ = NCCL_NET=Socket\\0\n", {"provider-variables"}, kRefuse},
    {"NCCL on sockets, in its log",
     "/proc/self/environ = NCCL_DEBUG_FILE=/tmp/nccl.%h.%p\\0\n"
     "/tmp/nccl.node0.12 = node0:12 NCCL INFO NET/Plugin: No plugin found (libnccl-net.so)\\nnode0:12 NCCL INFO Using "
     "network Socket\n",
     {"nccl-log"},
     kRefuse},
    {"device RDMA off", "/proc/self/environ = FI_EFA_USE_DEVICE_RDMA=0\\0\n", {"device-rdma"}, kRefuse},
    {"RDMAV_FORK_SAFE from an old recipe", "/proc/self/environ = RDMAV_FORK_SAFE=1\\0\n", {"fork-safety"}, kWarn},
    {"NCCL_PROTO from an old recipe", "/proc/self/environ = NCCL_PROTO=simple\\0\n", {"tuning-variables"}, kWarn},
    {"/etc/nccl.conf", "/etc/nccl.conf = # ours\\nNCCL_ALGO=Ring\n", {"tuning-variables"}, kWarn},
    {"a device is gone", "-/sys/class/infiniband/rdmap3s0\n", {"efa-count"}, kRefuse},
    {"the pod has fewer devices", "-/dev/infiniband/uverbs00\n", {"efa-count"}, kRefuse},
    {"a foreign device in the pod",
     "/sys/class/infiniband/mlx5_9/device/uevent = DRIVER=mlx5_core\n/sys/class/infiniband_verbs/uverbs99/ibdev = "
     "mlx5_9\n"
     "/dev/infiniband/uverbs99 =\n",
     {"foreign-rdma"},
     kRefuse},
    {"a port is down", "/sys/class/infiniband/rdmap2s0/ports/1/state = 1: DOWN\n", {"efa-port"}, kRefuse},
    {"a slow port", "/sys/class/infiniband/rdmap2s0/ports/1/rate = 50 Gb/sec (4X)\n", {"efa-rate"}, kWarn},
    {"an old EFA driver", "/sys/module/efa/version = 1.16.0g\n", {"efa-driver"}, kWarn},
    {"no GPUDirect",
     "-/sys/class/infiniband/rdmap0s0/device/p2p\n"
     "/proc/driver/nvidia/version = NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1  Release\n",
     {"gpudirect"},
     kRefuse},
    {"no GDRCopy", "-/dev/gdrdrv\n", {"gdrcopy"}, kWarn},
    {"no huge pages for the pod", "/sys/fs/cgroup/hugetlb.2MB.max = 0\n", {"huge-pages"}, kWarn},
    {"no huge pages, cgroup v1",
     "-/sys/fs/cgroup/hugetlb.2MB.max\n/proc/self/cgroup = 5:hugetlb:/kubepods/a\\n0::/\n"
     "/sys/fs/cgroup/hugetlb/kubepods/a/hugetlb.2MB.limit_in_bytes = 0\n",
     {"huge-pages"},
     kWarn},
    {"memlock is 64 KiB",
     "/proc/self/limits = Max locked memory         65536                65536                bytes\n"
     "/proc/self/status = CapEff: 00000000a80425fb\\nCpus_allowed_list: 0-191\n",
     {"memlock"},
     kRefuse},
    {"/dev/shm of 64 MiB", "/probes/shm = tmpfs 67108864\n", {"shm-size"}, kRefuse},
    {"left in /dev/shm", "/dev/shm/4242:0:0 =\n", {"shm-left"}, kWarn},
    {"a quota of 4 cores", "/sys/fs/cgroup/cpu.max = 400000 100000\n", {"cores"}, kRefuse},
    {"a quota of 4 cores, cgroup v1",
     "-/sys/fs/cgroup/cpu.max\n/proc/self/cgroup = 4:cpu,cpuacct:/kubepods/a\n"
     "/sys/fs/cgroup/cpu,cpuacct/kubepods/a/cpu.cfs_quota_us = 400000\n"
     "/sys/fs/cgroup/cpu,cpuacct/kubepods/a/cpu.cfs_period_us = 100000\n",
     {"cores"},
     kRefuse},
    {"throttled", "/sys/fs/cgroup/cpu.stat = nr_periods 5000\\nnr_throttled 900\n", {"cpu-throttling"}, kWarn},
    {"memory of AWS's sample", "/sys/fs/cgroup/memory.max = 33554432000\n", {"memory-limit"}, kRefuse},
    {"memory of AWS's sample, cgroup v1",
     "-/sys/fs/cgroup/memory.max\n/proc/self/cgroup = 9:memory:/kubepods/a\n"
     "/sys/fs/cgroup/memory/kubepods/a/memory.limit_in_bytes = 33554432000\n",
     {"memory-limit"},
     kRefuse},
    {"a process was killed", "/sys/fs/cgroup/memory.events = low 0\\noom_kill 2\n", {"oom-kills"}, kRefuse},
    {"an Xid",
     "/dev/kmsg = 3,9,9,-;NVRM: Xid (PCI:0000:0a:00): 79, GPU has fallen off the bus.\n",
     {"gpu-xid"},
     kRefuse},
    {"an error counter", "/sys/class/infiniband/rdmap1s0/ports/1/hw_counters/reg_mr_err = 5\n", {"efa-errors"}, kWarn},
    {"a rank bound far from its GPU",
     "/proc/self/status = CapEff: 00000000a80465fb\\nCpus_allowed_list: 48-95\n",
     {"cores-of-gpu"},
     kWarn},
    {"a worker without sshd",
     "/etc/mpi/hostfile = w-0.bench.ns.svc slots=8\\nw-1.bench.ns.svc slots=8\n"
     "/probes/hosts = w-0.bench.ns.svc ok\\nw-1.bench.ns.svc port 22 does not answer: Connection refused\n",
     {"hosts"},
     kRefuse},
    {"MPI on EFA", "/proc/self/environ = OMPI_MCA_pml=cm\\0\n", {"mpi-network"}, Severity::note},
};

// What the first GPU says, changed.
struct GpuFault {
  const char* from;
  const char* to;
  std::vector<std::string> ids;
  Severity severity;
};
const std::vector<GpuFault> kGpuFaults = {
    {"persistence=1", "persistence=0", {"gpu-persistence"}, kWarn},
    {"mig=0", "mig=1", {"gpu-mig"}, kRefuse},
    {"ecc_uncorrected=0", "ecc_uncorrected=3", {"gpu-memory-errors"}, kRefuse},
    {"remap_pending=0", "remap_pending=1", {"gpu-memory-errors"}, kRefuse},
    {"remap_failure=0", "remap_failure=1", {"gpu-memory-errors"}, kRefuse},
    {"clock_reasons=1", "clock_reasons=64", {"gpu-clocks"}, kWarn},
    {"fabric_state=3", "fabric_state=2", {"fabric-manager"}, kRefuse},
    {"memory_used_bytes=600000000", "memory_used_bytes=60000000000", {"gpu-in-use"}, kWarn},
    {"cuda 13000", "cuda 12080", {"cuda-driver"}, kRefuse},
};

}  // namespace

TEST_CASE("healthy nodes are fit, and every check could look", "[doctor]") {
  for (const std::string type : {"p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge", "p6-b300.48xlarge"}) {
    const NodeTree tree(type);
    const Facts facts = asked_for_efa(tree);
    INFO(type);
    CHECK(facts.instance_type == type);
    CHECK(facts.efa_count() == find_node_type(type)->efa_devices);
    CHECK(facts.gpus.size() == 8);
    const Diagnosis diagnosis = diagnose({facts});
    CHECK(words_of(diagnosis) == "");
    CHECK(diagnosis.is_comparable());
    CHECK(diagnosis.checks >= 35);
    REQUIRE(diagnosis.not_looked.size() == 1);
    CHECK(diagnosis.not_looked[0].id == "nccl-log");
  }
}

TEST_CASE("each planted fault is found, and nothing else is named", "[doctor]") {
  for (const Fault& fault : kFaults) {
    NodeTree tree("p6-b200.48xlarge");
    tree.apply(fault.overlay);
    const Diagnosis diagnosis = diagnose({asked_for_efa(tree)});
    INFO(fault.what << "\n" << words_of(diagnosis));
    CHECK(ids_of(diagnosis) == fault.ids);
    REQUIRE_FALSE(diagnosis.findings.empty());
    CHECK(diagnosis.findings.front().severity == fault.severity);
    CHECK(diagnosis.is_fit() == (fault.severity != Severity::refuse));
    for (const Finding& finding : diagnosis.findings) CHECK_FALSE((finding.fix.empty() || finding.why.empty()));
  }
}

TEST_CASE("each fault of a GPU is found, and nothing else is named", "[doctor]") {
  const NodeTree healthy("p5en.48xlarge");
  std::ifstream file(healthy.root() + "/probes/gpus");
  const std::string words{std::istreambuf_iterator<char>(file), {}};
  for (const GpuFault& fault : kGpuFaults) {
    std::string changed = words;
    changed.replace(changed.find(fault.from), std::string(fault.from).size(), fault.to);
    std::ofstream(healthy.root() + "/probes/gpus") << changed;
    const Diagnosis diagnosis = diagnose({asked_for_efa(healthy)});
    INFO(fault.to << "\n" << words_of(diagnosis));
    CHECK(ids_of(diagnosis) == fault.ids);
    CHECK(diagnosis.findings.front().severity == fault.severity);
  }
  std::ofstream(healthy.root() + "/probes/gpus") << words.substr(0, words.rfind("NVIDIA"));
  CHECK(ids_of(diagnose({asked_for_efa(healthy)})) == std::vector<std::string>{"gpu-count"});
}

TEST_CASE("what differs between ranks is found", "[doctor]") {
  const NodeTree tree("p5en.48xlarge");
  Facts first = asked_for_efa(tree), second = first;
  second.rank = 1;
  second.host = "node1";
  CHECK(words_of(diagnose({first, second})) == "");

  struct Difference {
    void (*make)(Facts&);
    std::vector<std::string> ids;
  };
  const std::vector<Difference> differences = {
      {[](Facts& f) { f.instance_type = "p5e.48xlarge"; }, {"efa-count", "instance-types"}},
      {[](Facts& f) { f.libraries[0].loaded = "Open MPI v5.0.8"; }, {"library-versions"}},
      {[](Facts& f) { f.kernel = "6.1.0-1.amzn2023"; }, {"driver-versions"}},
      {[](Facts& f) { f.environment.erase("LD_LIBRARY_PATH"); }, {"environment"}},
      {[](Facts& f) { f.environment["FI_EFA_USE_HUGE_PAGE"] = "0"; }, {"environment"}},
      {[](Facts& f) { f.zone = "use1-az6"; }, {"zones"}},
      {[](Facts& f) { f.network_node = "nn-0999"; }, {"spines"}},
      {[](Facts& f) { f.mtu["eth0"] = 1500; }, {"mtu"}},
      {[](Facts& f) { f.wall_clock_ns = 5'000'000'000; }, {"clocks"}},
      {[](Facts& f) {
         f.host = "node0";
         f.environment["CUDA_VISIBLE_DEVICES"] = "0";
       },
       {"visible-gpus"}},
  };
  first.wall_clock_ns = 0;
  first.environment["CUDA_VISIBLE_DEVICES"] = "0";
  for (const Difference& difference : differences) {
    Facts other = second;
    other.wall_clock_ns = 0;
    difference.make(other);
    const Diagnosis diagnosis = diagnose({first, other});
    INFO(words_of(diagnosis));
    CHECK(ids_of(diagnosis) == difference.ids);
  }

  // Four ranks, all on one of the two hosts of the hostfile; then unequal numbers; then taking turns.
  first.hostfile = {"node0", "node1"};
  CHECK(ids_of(diagnose({first, first})) == std::vector<std::string>{"rank-layout", "visible-gpus"});
  first.environment.erase("CUDA_VISIBLE_DEVICES");
  CHECK(ids_of(diagnose({first, first, second})) == std::vector<std::string>{"rank-layout"});
  CHECK(ids_of(diagnose({first, second, first, second})) == std::vector<std::string>{"rank-layout"});
  CHECK(ids_of(diagnose({first, first, second, second})).empty());
}

TEST_CASE("the same finding of many ranks is one, with the ranks", "[doctor]") {
  NodeTree tree("p5.48xlarge");
  tree.apply("/proc/self/environ = FI_EFA_USE_DEVICE_RDMA=0\\0\n-/dev/gdrdrv\n");
  std::vector<Facts> ranks(4, asked_for_efa(tree));
  for (int rank = 0; rank < 4; ++rank) {
    ranks[static_cast<std::size_t>(rank)].rank = rank;
    ranks[static_cast<std::size_t>(rank)].host = rank < 2 ? "node0" : "node1";
  }
  const Diagnosis diagnosis = diagnose(ranks);
  REQUIRE(ids_of(diagnosis) == std::vector<std::string>{"device-rdma", "gdrcopy"});
  CHECK(diagnosis.findings[0].ranks == std::vector<int>{0, 1, 2, 3});  // of every rank
  CHECK(diagnosis.findings[1].ranks == std::vector<int>{0, 2});        // of every node
  CHECK(diagnosis.findings[1].hosts == std::vector<std::string>{"node0", "node1"});
}

TEST_CASE("on a laptop there are notes and no refusals, unless EFA is asked for", "[doctor]") {
  NodeTree tree;
  tree.apply(
      "/proc/sys/kernel/hostname = laptop\n/proc/self/limits = Max locked memory  8388608  8388608  bytes\n"
      "/probes/shm = tmpfs 67108864\n/sys/devices/system/cpu/online = 0-1\n/proc/self/status = Cpus_allowed_list: 0-1\n"
      "/proc/self/environ = OMPI_COMM_WORLD_LOCAL_SIZE=4\\0NCCL_ALGO=Ring\\0\n"
      "/probes/libraries = libfabric|1.17|1.17.0; providers here: tcp, shm|\n"
      "/proc/self/maps = 7f0-7f1 r-xp 0 00:00 1 /usr/lib/x86_64-linux-gnu/libfabric.so.1.19.0\n");
  Facts facts = read_facts(tree.root());
  const Diagnosis diagnosis = diagnose({facts});
  CHECK(ids_of(diagnosis) == std::vector<std::string>{"cores", "shm-size", "tuning-variables"});
  CHECK(diagnosis.is_comparable());
  facts.provider = "efa";
  CHECK_FALSE(diagnose({facts}).is_fit());
}

TEST_CASE("facts of which nothing can be read are unknown, and no check invents them", "[doctor]") {
  const NodeTree nothing;
  const Diagnosis diagnosis = diagnose({read_facts(nothing.root(), TryHosts::yes)});
  CHECK(words_of(diagnosis) == "");
  CHECK(diagnosis.not_looked.size() > 3);
}

TEST_CASE("every rank has all ranks' facts", "[doctor]") {
  const NodeTree tree("p5.48xlarge");
  const Facts facts = asked_for_efa(tree);
  run_ranks(3, [&](Bootstrap& bootstrap) {
    Facts mine = facts;
    mine.zone = "zone" + std::to_string(bootstrap.rank());
    const auto all = gather_facts(bootstrap, mine);
    if (bootstrap.rank() != 1) return;
    REQUIRE(all.size() == 3);
    CHECK(all[2].rank == 2);
    CHECK(all[2].zone == "zone2");
    CHECK(all[0].devices.size() == 32);
    CHECK(all[0].devices[31].counters == facts.devices[31].counters);
    CHECK(all[0].gpus[7].pci_path == facts.gpus[7].pci_path);
    CHECK(all[0].memlock_bytes == kUnlimited);
  });
}

TEST_CASE("ids of checks are unlike", "[doctor]") {
  std::set<std::string> ids;
  std::size_t count = 0;
  for (const auto checks : {library_checks(), efa_checks(), gpu_checks(), host_checks()}) {
    for (const Check& check : checks) ids.insert(check.id);
    count += checks.size();
  }
  for (const JobCheck& check : job_checks()) ids.insert(check.id);
  CHECK(ids.size() == count + job_checks().size());
}
