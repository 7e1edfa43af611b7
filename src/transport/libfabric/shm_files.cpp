#include "transport/libfabric/shm_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

namespace mrb {

namespace {

// Which process, in a way that a later one with the same pid does not repeat.
struct Owner {
  unsigned long long user = 0;
  unsigned long long pid_namespace = 0;
  unsigned long long pid = 0;
  unsigned long long start_ticks = 0;  // since boot

  friend bool operator==(const Owner&, const Owner&) = default;
};

// When a process of this pid namespace started, or nothing when there is none.
std::optional<unsigned long long> start_ticks_of(unsigned long long pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The second field is the program's name in parentheses, which may hold anything; the start time is
  // field 22.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int skipped = 3; skipped < 22; ++skipped) fields >> field;
  unsigned long long ticks = 0;
  return fields >> ticks ? std::optional(ticks) : std::nullopt;
}

Owner this_process() {
  struct stat pid_namespace = {};
  stat("/proc/self/ns/pid", &pid_namespace);
  const auto pid = static_cast<unsigned long long>(getpid());
  return {geteuid(), pid_namespace.st_ino, pid, start_ticks_of(pid).value_or(0)};
}

std::optional<Owner> owner_in(const std::string& file_name) {
  Owner owner;
  const int fields = std::sscanf(file_name.c_str(), "mrb-%llu-%llu-%llu-%llu-", &owner.user, &owner.pid_namespace,
                                 &owner.pid, &owner.start_ticks);
  return fields == 4 ? std::optional(owner) : std::nullopt;
}

bool is_stale(const std::filesystem::path& file, const Owner& self) {
  const auto owner = owner_in(file.filename().string());
  if (!owner || owner->user != self.user || owner->pid_namespace != self.pid_namespace) return false;
  struct stat status = {};
  if (lstat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid()) return false;
  // A pid that is in use again belongs to a process with another start time.
  return start_ticks_of(owner->pid) != owner->start_ticks;
}

}  // namespace

std::string next_shm_endpoint_name() {
  static std::atomic<int> count = 0;
  const Owner self = this_process();
  return fmt::format("mrb-{}-{}-{}-{}-{}", self.user, self.pid_namespace, self.pid, self.start_ticks, ++count);
}

int remove_stale_shm_files(const std::string& folder) {
  int removed = 0;
  const Owner self = this_process();
  std::error_code ignored;  // another rank may remove the same file at the same time
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (is_stale(entry.path(), self) && std::filesystem::remove(entry.path(), ignored)) ++removed;
  }
  return removed;
}

}  // namespace mrb
