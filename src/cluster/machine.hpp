// What a rank runs on, for the record beside every number.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace mrb {

struct Machine {
  std::string host;
  std::string kernel;
  std::string processor;
  int cores_online = 0;
  int cores_allowed = 0;  // to this process, by affinity and cgroup quota; a part of a core does not count
  std::string cpus;       // those that affinity allows: "0-3,8"
  std::uint64_t memory_bytes = 0;
  double load_average = 0;
};

// This machine, or the one whose /proc and /sys lie under `root`. What cannot be read stays empty or zero,
// except cores_allowed, which is at least 1.
Machine read_machine(const std::string& root = "");

// A library of this build, or one that was left out.
struct LibraryLine {
  std::string name;
  std::string built_with;  // version of the headers
  std::string loaded;      // version and more of the library in this process, in its own words
  std::string needs;       // the missing feature; empty when it is in this build
};

// MPI, libfabric (with its providers), CUDA (with its GPUs), NCCL. Starts none of them.
std::vector<LibraryLine> library_lines();

// The variables that change how these libraries behave (FI_*, NCCL_*, OFI_*, OMPI_*, UCX_*, CUDA_*, OMP_*,
// MRB_*), the values of names with KEY, TOKEN, SECRET or PASS replaced by "(hidden)".
std::map<std::string, std::string> recorded_environment();

// The same of an environment given as "NAME=value".
std::map<std::string, std::string> recorded_environment(std::span<const std::string> variables);

}  // namespace mrb
