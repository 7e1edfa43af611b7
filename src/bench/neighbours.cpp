#include "bench/neighbours.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "base/error.hpp"

namespace mrb {

namespace {

constexpr std::uint64_t kUsablePercent = 90;

// One field a line.
std::string to_text(const Machine& machine) {
  return fmt::format("{}\n{}\n{}\n{}\n{} {} {} {}\n", machine.host, machine.kernel, machine.processor, machine.cpus,
                     machine.cores_online, machine.cores_allowed, machine.memory_bytes, machine.load_average);
}

Machine from_text(const std::string& text) {
  Machine machine;
  std::istringstream lines(text);
  for (std::string* field : {&machine.host, &machine.kernel, &machine.processor, &machine.cpus})
    std::getline(lines, *field);
  lines >> machine.cores_online >> machine.cores_allowed >> machine.memory_bytes >> machine.load_average;
  return machine;
}

std::vector<std::string> gather_text(Bootstrap& bootstrap, const std::string& mine) {
  std::vector<std::string> texts;
  for (const auto& bytes : bootstrap.all_gather(std::as_bytes(std::span(mine)))) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

int ranks_on(const std::vector<Machine>& machines, const std::string& host) {
  return static_cast<int>(
      std::count_if(machines.begin(), machines.end(), [&](const Machine& m) { return m.host == host; }));
}

}  // namespace

std::vector<Machine> meet(Bootstrap& bootstrap, const Machine& mine) {
  std::vector<Machine> machines;
  for (const std::string& text : gather_text(bootstrap, to_text(mine))) machines.push_back(from_text(text));
  return machines;
}

std::vector<int> cpus_in(const std::string& list) {
  constexpr int kCpusMax = 65536;
  std::vector<int> cpus;
  std::istringstream parts(list);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream range(part);
    int first = 0, last = 0;
    char dash = 0;
    if (!(range >> first) || first < 0) return {};
    last = first;
    if (range >> dash && (dash != '-' || !(range >> last) || last < first || last > kCpusMax)) return {};
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

int cores_of(const std::vector<Machine>& machines, int rank) {
  const Machine& mine = machines[static_cast<std::size_t>(rank)];
  double share = 0;
  for (const int cpu : cpus_in(mine.cpus)) {
    int sharers = 0;
    for (const Machine& other : machines) {
      if (other.host != mine.host) continue;
      const auto theirs = cpus_in(other.cpus);
      sharers += std::find(theirs.begin(), theirs.end(), cpu) != theirs.end() ? 1 : 0;
    }
    share += 1.0 / sharers;
  }
  const auto bound_cores = static_cast<int>(cpus_in(mine.cpus).size());
  if (mine.cores_allowed < bound_cores || bound_cores == 0) {  // a quota, which all ranks of the node share
    share = static_cast<double>(mine.cores_allowed) / ranks_on(machines, mine.host);
  }
  constexpr double kRounding = 1e-9;  // three thirds of a core are one
  return std::max(1, static_cast<int>(share + kRounding));
}

int ranks_per_node(const std::vector<Machine>& machines) {
  const auto size = static_cast<std::size_t>(ranks_on(machines, machines.front().host));
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    const std::string& first = machines[rank / size * size].host;
    if (machines[rank].host != first || ranks_on(machines, first) != static_cast<int>(size)) return 0;
  }
  return static_cast<int>(size);
}

std::uint64_t memory_bytes_per_rank(const std::vector<Machine>& machines) {
  std::uint64_t least = 0;
  for (const Machine& machine : machines) {
    const auto share =
        machine.memory_bytes / 100 * kUsablePercent / static_cast<std::uint64_t>(ranks_on(machines, machine.host));
    if (share > 0 && (least == 0 || share < least)) least = share;
  }
  return least;
}

void require_equal_settings(Bootstrap& bootstrap, const std::vector<Machine>& machines, const std::string& text) {
  const auto texts = gather_text(bootstrap, text);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    throw Error(
        ErrorKind::config,
        fmt::format("rank {} ({}) has other settings than rank 0 ({})", rank, machines[rank].host, machines[0].host),
        "give all nodes the same configuration file and the same MRB_* variables");
  }
}

}  // namespace mrb
