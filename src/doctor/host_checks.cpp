// Cores, memory and the limits that a container sets.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/units.hpp"
#include "doctor/check.hpp"

namespace mrb {

namespace {

// What stops a job over EFA only slows down one that runs over something else.
Severity unless_efa(const Facts& facts) {
  return facts.expects_efa() ? Severity::refuse : Severity::warn;
}

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::string size(std::int64_t bytes) {
  return bytes == kUnlimited ? "unlimited" : bytes_text(static_cast<std::uint64_t>(bytes));
}

// On a node with GPUs each is driven by one rank, whether or not mpirun has started them yet.
int ranks_expected(const Facts& facts) {
  return std::max(facts.local_ranks, static_cast<int>(facts.gpus.size()));
}

Outcome memlock(const Facts& facts) {
  if (facts.memlock_bytes == kUnknown) return not_looked("/proc/self/limits is not there");
  if (!facts.expects_efa() || facts.memlock_bytes == kUnlimited || facts.has_ipc_lock) return fine();
  return found(fmt::format("this rank may lock {} of memory, and has no IPC_LOCK", size(facts.memlock_bytes)));
}

Outcome shared_memory(const Facts& facts) {
  if (facts.shm_free_bytes == kUnknown) return not_looked("/dev/shm is not there");
  if (facts.shm_free_bytes >= kGiB) return fine();
  return found(fmt::format("/dev/shm has {} free", size(facts.shm_free_bytes)), unless_efa(facts));
}

Outcome shared_memory_type(const Facts& facts) {
  if (facts.shm_type.empty() || facts.shm_type == "tmpfs") return fine();
  return found(fmt::format("/dev/shm is {} and not tmpfs", facts.shm_type));
}

Outcome shared_memory_left(const Facts& facts) {
  if (facts.shm_stale.empty()) return fine();
  return found(
      fmt::format("{} in /dev/shm, such as {}", counted(facts.shm_stale.size(), "file"), facts.shm_stale.front()));
}

Outcome cores(const Facts& facts) {
  const int ranks = ranks_expected(facts);
  if (facts.cores_allowed < ranks) {
    return found(fmt::format("{} ranks of this node share {} cores", ranks, facts.cores_allowed), unless_efa(facts));
  }
  // A thread that moves bytes (progress: thread, the proxy dispatcher) beside each rank.
  if (facts.expects_efa() && facts.cores_allowed < 2 * ranks) {
    return found(fmt::format("{} cores for {} ranks leave none for their threads", facts.cores_allowed, ranks),
                 Severity::warn);
  }
  return fine();
}

Outcome throttling(const Facts& facts) {
  if (facts.cpu_periods <= 0 || facts.cpu_periods_throttled == kUnknown) return fine();
  const double ratio = static_cast<double>(facts.cpu_periods_throttled) / static_cast<double>(facts.cpu_periods);
  constexpr double kRatioMax = 0.01;
  if (ratio <= kRatioMax) return fine();
  return found(
      fmt::format("the quota stopped this pod in {} of {} periods", facts.cpu_periods_throttled, facts.cpu_periods));
}

Outcome memory_limit(const Facts& facts) {
  if (facts.memory_limit_bytes == kUnknown || facts.memory_limit_bytes == kUnlimited || !facts.expects_efa())
    return fine();
  const int ranks = ranks_expected(facts);
  // 32000 MiB for eight ranks is known to end in the kernel killing one of them; twice as much is not.
  constexpr std::int64_t kTooLittle = 4 * kGiB, kThin = 8 * kGiB;
  const std::int64_t each = facts.memory_limit_bytes / ranks;
  if (each >= kThin) return fine();
  return found(fmt::format("this pod may have {} of memory, {} for each of {} ranks", size(facts.memory_limit_bytes),
                           size(each), ranks),
               each < kTooLittle ? Severity::refuse : Severity::warn);
}

Outcome oom_kills(const Facts& facts) {
  if (facts.oom_kills <= 0) return fine();
  return found(fmt::format("the kernel has killed {} of this pod for want of memory",
                           counted(static_cast<std::size_t>(facts.oom_kills), "process")));
}

Outcome hosts_answer(const Facts& facts) {
  if (facts.hostfile.empty()) return fine();
  if (!facts.has_tried_hosts) return not_looked("ranks run already; run doctor in the launcher before mpirun");
  std::vector<std::string> why;
  for (const auto& [host, words] : facts.unreachable) why.push_back(host + ": " + words);
  return why.empty() ? fine() : found(fmt::format("{}", fmt::join(why, "; ")));
}

constexpr Check kChecks[] = {
    {"memlock", Scope::rank, Severity::refuse, memlock, "/proc/self/limits, CapEff",
     "EFA registers memory by locking it, and fails with error 4112 or -12",
     "raise LimitMEMLOCK of containerd on the node, add IPC_LOCK to the pod, and look that sshd's PAM does not lower "
     "it"},
    {"shm-size", Scope::node, Severity::refuse, shared_memory, "statfs of /dev/shm",
     "ranks of a node talk through it; a pod has 64 MiB unless it asks for more",
     "mount an emptyDir of medium Memory at /dev/shm"},
    {"shm-type", Scope::node, Severity::warn, shared_memory_type, "statfs of /dev/shm",
     "ranks of a node would talk through a disk", "mount an emptyDir of medium Memory at /dev/shm"},
    {"shm-left", Scope::node, Severity::warn, shared_memory_left, "/dev/shm, /proc",
     "what dead processes left takes the room of the next ones", "remove it; do not mount the host's /dev/shm"},
    {"cores", Scope::node, Severity::refuse, cores, "affinity, cpu.max or cpu.cfs_quota_us of the cgroup",
     "ranks that share cores measure the scheduler", "request whole cpus, as many as limits, at least two for a rank"},
    {"cpu-throttling", Scope::node, Severity::warn, throttling, "cpu.stat of the cgroup",
     "a pod at its quota stops for most of a period of 100 ms",
     "set the pod's cpu request and limit to the same whole number"},
    {"memory-limit", Scope::node, Severity::refuse, memory_limit, "memory.max or memory.limit_in_bytes of the cgroup",
     "a rank that is killed shows as 'Invalid receiver queue pair number' at the others",
     "request at least 8 GiB for each rank, and the dispatcher's buffers"},
    {"oom-kills", Scope::node, Severity::refuse, oom_kills, "memory.events or memory.oom_control of the cgroup",
     "a rank that is killed shows as 'Invalid receiver queue pair number' at the others",
     "raise the pod's memory limit"},
    {"hosts", Scope::node, Severity::refuse, hosts_answer, "/etc/mpi/hostfile, name service, port 22",
     "mpirun ends or hangs when a worker's name or sshd is not there yet",
     "wait for the workers, for a bounded time, before mpirun; look at the pods that do not come up"},
};

}  // namespace

std::span<const Check> host_checks() {
  return kChecks;
}

}  // namespace mrb
