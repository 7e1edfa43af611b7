// What must be the same on all ranks, or fit together.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "doctor/check.hpp"

namespace mrb {

namespace {

// "a" on node0, "b" on node1, 3 more: each value with the first host that has it.
Outcome unless_equal(const std::vector<Facts>& ranks, const char* what,
                     const std::function<std::string(const Facts&)>& value) {
  std::vector<std::pair<std::string, std::string>> seen;  // value, host
  for (const Facts& facts : ranks) {
    const std::string text = value(facts);
    const auto same = std::find_if(seen.begin(), seen.end(), [&](const auto& entry) { return entry.first == text; });
    if (same == seen.end()) seen.emplace_back(text, fmt::format("rank {} ({})", facts.rank, facts.host));
  }
  if (seen.size() < 2) return fine();
  std::string text;
  for (const auto& [content, host] : seen) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", content.empty() ? "none" : content, host);
  }
  return found(fmt::format("{}: {}", what, text));
}

Outcome instance_types(const std::vector<Facts>& ranks) {
  return unless_equal(ranks, "instance type", [](const Facts& f) { return f.instance_type; });
}

Outcome libraries(const std::vector<Facts>& ranks) {
  for (std::size_t index = 0; index < ranks.front().libraries.size(); ++index) {
    const LibraryLine& first = ranks.front().libraries[index];
    if (!first.needs.empty()) continue;
    const Outcome outcome = unless_equal(ranks, first.name.c_str(), [&](const Facts& facts) {
      for (const LibraryLine& line : facts.libraries) {
        // What is behind the semicolon (providers, GPUs) has checks of its own.
        if (line.name == first.name) return line.loaded.substr(0, line.loaded.find(';'));
      }
      return std::string("not in this build");
    });
    if (outcome.kind == Outcome::Kind::found) return outcome;
  }
  return unless_equal(ranks, "file of libfabric", [](const Facts& facts) {
    const auto file = facts.library_files.find("libfabric");
    return file == facts.library_files.end() ? std::string() : file->second;
  });
}

Outcome drivers(const std::vector<Facts>& ranks) {
  for (const auto& [what, member] : {std::pair{"kernel", &Facts::kernel},
                                     {"EFA driver", &Facts::efa_driver_version},
                                     {"GPU driver", &Facts::gpu_driver}}) {
    const Outcome outcome = unless_equal(ranks, what, [member = member](const Facts& facts) { return facts.*member; });
    if (outcome.kind == Outcome::Kind::found) return outcome;
  }
  return fine();
}

Outcome devices(const std::vector<Facts>& ranks) {
  return unless_equal(ranks, "devices",
                      [](const Facts& f) { return fmt::format("{} EFA and {} GPUs", f.efa_count(), f.gpus.size()); });
}

// Whether a variable must be the same on all ranks: those that differ by nature are left out.
bool is_shared(const std::string& name) {
  static const std::set<std::string> kOwn = {"CUDA_VISIBLE_DEVICES", "K_MPI_JOB_ROLE", "FI_EFA_IFACE"};
  return !kOwn.contains(name) && !name.starts_with("OMPI_") && !name.starts_with("PMIX_") && !name.starts_with("PRTE_");
}

// A list of folders without repetitions and empty entries: Open MPI puts its own in front, on some hosts twice.
std::string folders_of(const std::string& list) {
  std::vector<std::string> folders;
  std::istringstream parts(list);
  for (std::string folder; std::getline(parts, folder, ':');) {
    const bool is_new = std::find(folders.begin(), folders.end(), folder) == folders.end();
    if (!folder.empty() && is_new) folders.push_back(folder);
  }
  return fmt::format("{}", fmt::join(folders, ":"));
}

Outcome environment(const std::vector<Facts>& ranks) {
  std::set<std::string> names;
  for (const Facts& facts : ranks) {
    for (const auto& [name, value] : facts.environment) {
      if (is_shared(name)) names.insert(name);
    }
  }
  std::string text;
  for (const std::string& name : names) {
    const Outcome outcome = unless_equal(ranks, name.c_str(), [&](const Facts& facts) {
      if (!facts.environment.contains(name)) return std::string("not set");
      return "'" + (name == "LD_LIBRARY_PATH" ? folders_of(facts.variable(name)) : facts.variable(name)) + "'";
    });
    if (outcome.kind == Outcome::Kind::found) text += (text.empty() ? "" : "; ") + outcome.text;
  }
  return text.empty() ? fine() : found(text);
}

Outcome zones(const std::vector<Facts>& ranks) {
  if (std::all_of(ranks.begin(), ranks.end(), [](const Facts& f) { return f.zone.empty(); })) {
    return ranks.front().is_cluster_node() ? not_looked("/etc/podinfo/labels does not name the zone") : fine();
  }
  return unless_equal(ranks, "zone", [](const Facts& f) { return f.zone; });
}

Outcome spines(const std::vector<Facts>& ranks) {
  return unless_equal(ranks, "network node of layer 3", [](const Facts& f) { return f.network_node; });
}

Outcome layout(const std::vector<Facts>& ranks) {
  std::vector<std::pair<std::string, int>> runs;  // ranks in a row on a host
  for (const Facts& facts : ranks) {
    if (runs.empty() || runs.back().first != facts.host) runs.emplace_back(facts.host, 0);
    ++runs.back().second;
  }
  std::set<std::string> hosts;
  for (const auto& [host, count] : runs) hosts.insert(host);
  if (hosts.size() < runs.size()) return found(fmt::format("ranks of {} hosts take turns", hosts.size()));
  for (const auto& [host, count] : runs) {
    if (count == runs.front().second) continue;
    return found(fmt::format("{} ranks on {}, and {} on {}", runs.front().second, runs.front().first, count, host));
  }
  const std::size_t named = ranks.front().hostfile.size();
  const bool is_before_mpirun = ranks.size() == 1;
  if (named > 0 && !is_before_mpirun && hosts.size() != named) {
    return found(fmt::format("the hostfile names {} hosts, and ranks run on {}: {}", named, hosts.size(),
                             fmt::join(hosts, ", ")));
  }
  return fine();
}

Outcome visible_gpus(const std::vector<Facts>& ranks) {
  std::map<std::string, const Facts*> first;  // host and devices
  for (const Facts& facts : ranks) {
    const std::string devices = facts.variable("CUDA_VISIBLE_DEVICES");
    if (devices.empty() || devices.find(',') != std::string::npos) continue;
    const auto [entry, is_new] = first.try_emplace(facts.host + " " + devices, &facts);
    if (!is_new) {
      return found(fmt::format("ranks {} and {} on {} both have CUDA_VISIBLE_DEVICES={}", entry->second->rank,
                               facts.rank, facts.host, devices));
    }
  }
  return fine();
}

Outcome mtus(const std::vector<Facts>& ranks) {
  for (const auto& [name, mtu] : ranks.front().mtu) {
    const Outcome outcome = unless_equal(ranks, ("MTU of " + name).c_str(), [&](const Facts& facts) {
      const auto found_mtu = facts.mtu.find(name);
      return found_mtu == facts.mtu.end() ? std::string() : std::to_string(found_mtu->second);
    });
    if (outcome.kind == Outcome::Kind::found) return outcome;
  }
  return fine();
}

Outcome clocks(const std::vector<Facts>& ranks) {
  constexpr std::int64_t kApart_ns = 1'000'000'000;  // far above how long ranks take to leave a barrier
  for (const Facts& facts : ranks) {
    if (facts.wall_clock_ns == kUnknown || ranks.front().wall_clock_ns == kUnknown) return fine();
    const std::int64_t apart = facts.wall_clock_ns - ranks.front().wall_clock_ns;
    if (apart > kApart_ns || apart < -kApart_ns) {
      return found(fmt::format("the clock of rank {} ({}) is {:.1f} s from that of rank 0 ({})", facts.rank, facts.host,
                               static_cast<double>(apart) / 1e9, ranks.front().host));
    }
  }
  return fine();
}

constexpr JobCheck kChecks[] = {
    {"instance-types", Severity::refuse, instance_types, "the instance type of every node",
     "the slowest type is what would be measured",
     "select one type with nodeSelector node.kubernetes.io/instance-type"},
    {"library-versions", Severity::refuse, libraries, "versions and files of the libraries of every rank",
     "ranks with other versions disagree on protocols, and the first exchange hangs",
     "run the same image on all nodes, and pass LD_LIBRARY_PATH on (mpirun -x)"},
    {"driver-versions", Severity::warn, drivers, "kernel, EFA and GPU driver of every node",
     "nodes of different AMIs are not equally fast", "use nodes of one AMI"},
    {"device-counts", Severity::refuse, devices, "EFA devices and GPUs of every node",
     "the node with least holds up the others", "request the same in every pod"},
    {"environment", Severity::warn, environment,
     "FI_*, NCCL_*, OFI_*, CUDA_*, OMP_*, MRB_*, LD_LIBRARY_PATH of every rank",
     "ranks are children of sshd: they have the variables of the pod only where mpirun hands them on",
     "pass them on with mpirun -x NAME"},
    {"zones", Severity::refuse, zones, "labels of every pod", "EFA does not leave an availability zone",
     "require podAffinity on topology.kubernetes.io/zone"},
    {"spines", Severity::warn, spines, "label topology.k8s.aws/network-node-layer-3 of every pod",
     "pairs of nodes are not equally far apart",
     "prefer podAffinity on topology.k8s.aws/network-node-layer-3, or a placement group"},
    {"rank-layout", Severity::refuse, layout, "the host of every rank, the hostfile",
     "unequal nodes, or ranks that all run in the launcher, measure something else",
     "set -np to workers x slotsPerWorker, and map ranks by slot"},
    {"visible-gpus", Severity::refuse, visible_gpus, "CUDA_VISIBLE_DEVICES of every rank",
     "two ranks on one GPU measure each other",
     "leave CUDA_VISIBLE_DEVICES alone, or give each rank of a node another one"},
    {"mtu", Severity::warn, mtus, "the MTU of every interface on every node",
     "large datagrams are lost while TCP goes on, and TCP itself is slower",
     "use nodes of one subnet and CNI configuration (9001 in a VPC)"},
    {"clocks", Severity::note, clocks, "the wall clock of every rank, after a barrier",
     "logs of different nodes cannot be put in order", "let chrony use the Amazon Time Sync Service"},
};

}  // namespace

std::span<const JobCheck> job_checks() {
  return kChecks;
}

}  // namespace mrb
