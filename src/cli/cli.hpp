// The command line: one file per command, flags into settings, call, exit code.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/settings.hpp"

namespace mrb {

// Runs the command line and returns the exit code (0 to 8, 70, or 128 and a signal). Never exits by itself.
int run_cli(int argc, char** argv);

// What several commands take: a file, --set, and a flag for every field.
struct SettingsOptions {
  std::string file;
  std::vector<std::string> sets;
  std::vector<std::pair<std::string, std::string>> flags;  // key, value

  // Only fields for which `concerns` is true get a flag.
  void add_to(CLI::App& command, const std::function<bool(const std::string& key)>& concerns = {});

  // With the process's environment and the names this build knows.
  SettingsSources sources() const;
};

// Each adds its command to `app`, as a callback; those that take `exit_code` have exit codes of their own.
void add_run_command(CLI::App& app, std::vector<std::string> arguments, int& exit_code);
void add_micro_command(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code);
void add_compare_command(CLI::App& app, int& exit_code);
void add_ab_command(CLI::App& app, int& exit_code);
void add_baseline_command(CLI::App& app, int& exit_code);
void add_report_command(CLI::App& app);
void add_doctor_command(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code);
void add_config_command(CLI::App& app);
void add_list_command(CLI::App& app);
void add_manifest_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app);
void add_tune_command(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code);
void add_version_command(CLI::App& app);

// This process's rank as mpirun said it in the environment; 0 without mpirun.
int rank_in_environment();

// Runs `ranks` ranks of this program under mpirun, hands on the signals that come meanwhile, and returns mpirun's exit
// code, or 128 and the signal when one ended it. An mpirun that does not end some seconds after a rank's end_notice(),
// because it waits for a host that is gone, is ended, and the code is the notice's. Throws Error(environment) when there
// is no mpirun, Error(config) when this build has no MPI. `also` hears what the ranks say, and may end them, too.
class ChildWatch;
int launch_self(int ranks, const std::vector<std::string>& arguments, ChildWatch* also = nullptr);

// What a rank that ends all others says last, a line of its own, and its exit code in what ranks have said; -1 if none
// has said it.
std::string end_notice(int rank, int exit_code);
int exit_code_in(const std::string& words);

// The host whose daemon mpirun says that it has lost; empty if it says nothing of the kind.
std::string lost_host_in(const std::string& words);

// The command that launch_self() runs on this machine, and that for a machine with so many cores. Open MPI 4 and 5
// both take these options.
std::vector<std::string> mpirun_command(int ranks, const std::vector<std::string>& arguments);
std::vector<std::string> mpirun_command(int ranks, int cores, bool is_root, const std::vector<std::string>& arguments);

}  // namespace mrb
