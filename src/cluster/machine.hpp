// What a rank runs on, for the record beside every number.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mrb {

struct Machine {
  std::string host;
  std::string kernel;
  std::string processor;
  int cores_online = 0;
  int cores_allowed = 0;  // to this process, by affinity and cgroup quota
  std::string cpus;       // the allowed ones: "0-3,8"
  unsigned long long memory_bytes = 0;
  double load_average = 0;
};

Machine read_machine();

// A library of this build, or one that was left out.
struct LibraryLine {
  std::string name;
  std::string built_with;  // version of the headers
  std::string loaded;      // version and more of the library in this process, in its own words
  std::string needs;       // the missing feature; empty when it is in this build
};

// MPI, libfabric (with its providers), CUDA (with its GPUs), NCCL. Starts none of them.
std::vector<LibraryLine> library_lines();

// The variables that change how these libraries behave (FI_*, NCCL_*, OFI_*, OMPI_*, UCX_*, CUDA_*, OMP_*, MRB_*),
// the values of names with KEY, TOKEN, SECRET or PASS replaced by "(hidden)".
std::map<std::string, std::string> recorded_environment();

}  // namespace mrb
