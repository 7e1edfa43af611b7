// Running a command as one rank of many: errors that all ranks share are said once, and a rank that fails alone ends
// the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/launch.hpp"
#include "bench/neighbours.hpp"
#include "cli/cli.hpp"
#include "report/run_info.hpp"

namespace mrb {

struct RankMain {
  std::function<void(Bootstrap&)> prepare;  // what fails in here fails on all ranks alike
  std::function<int(Bootstrap&)> execute;   // what fails in here may leave other ranks waiting. Returns the exit code
};

// `bootstrap_name`: see make_bootstrap().
int run_as_rank(const std::string& bootstrap_name, const SettingsOptions&, const RankMain&);

// As one of mpirun's ranks, or with `ranks` of them started here, or alone: calls `as_rank` with the bootstrap's name,
// or starts this program again with `arguments`.
int run_with_ranks(const Settings&, const std::vector<std::string>& arguments,
                   const std::function<int(const std::string& bootstrap_name)>& as_rank);

// Collective. Reads the settings on every rank, and refuses those that differ.
Settings load_on_all_ranks(Bootstrap&, const SettingsOptions&, const std::vector<Machine>&, Purpose);

// The build, the machines and the libraries, for rank 0's record. Settings and compute are left to the caller.
RunInfo describe_run(const std::vector<Machine>&, std::vector<std::string> arguments);

// What computes, in the words of its library.
void describe_compute(RunInfo&, const ComputeConfig&);

// SIGTERM and SIGINT are remembered from now on; a command then ends as soon as it can, and keeps what it has.
void catch_signals();
bool is_interrupted();
int interrupted_exit_code();

void print_error(const std::string& text);

}  // namespace mrb
