#include "cli/rank_main.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <set>

#include "base/error.hpp"
#include "cluster/agree.hpp"
#include "compute/backend.hpp"

namespace mrb {

namespace {

volatile std::sig_atomic_t received_signal = 0;

void remember_signal(int signal) {
  received_signal = signal;
}

// How long ranks wait for each other outside of messages: longer than for a message, whose error names the rank that is
// missing. What is wrong with the settings is not said here, where ranks cannot yet agree on who says it.
double meeting_timeout_s(const SettingsOptions& options) {
  constexpr double kLonger = 10;
  try {
    return std::stod(load_settings(options.sources()).at("transport.timeout_s").values.front()) + kLonger;
  } catch (const Error&) {
    return BootstrapOptions{}.timeout_s;
  }
}

// All that the ranks have to say, in one message, and who says nothing.
std::string dump_of(const std::vector<std::string>& words) {
  std::string text, silent;
  std::size_t answers = 0;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    if (words[rank].empty()) {
      silent += fmt::format("{}{}", silent.empty() ? "" : ", ", rank);
    } else {
      text += words[rank] + "\n";
      ++answers;
    }
  }
  const std::string front = silent.empty() ? fmt::format("all {} ranks wait in vain", words.size())
                                           : fmt::format("{} of {} ranks wait in vain; no answer from rank {}", answers,
                                                         words.size(), silent);
  return front + "\n" + text;
}

// What others wait for is asked only when this rank waits too: a fault of its own is known here.
void end_all(Bootstrap& bootstrap, const std::string& text, ErrorKind kind) {
  std::string words = text;
  if (bootstrap.size() > 1) {
    words = fmt::format("[rank {} of {}, node {}] {}", bootstrap.rank(), bootstrap.size(), read_machine().host, text);
    if (kind == ErrorKind::timeout) words = dump_of(bootstrap.last_words(words));
  }
  print_error(words);
  if (bootstrap.size() > 1) std::fputs(end_notice(bootstrap.rank(), static_cast<int>(kind)).c_str(), stderr);
  std::fflush(stderr);
  bootstrap.abort(static_cast<int>(kind));
}

}  // namespace

int run_as_rank(const std::string& bootstrap_name, const SettingsOptions& options, const RankMain& main) {
  const auto bootstrap = make_bootstrap(bootstrap_name, {.timeout_s = meeting_timeout_s(options)});
  try {
    main.prepare(*bootstrap);
  } catch (const Error& error) {
    if (bootstrap->rank() == 0) print_error(error.what());
    return error.exit_code();
  }
  try {
    return main.execute(*bootstrap);
  } catch (const Error& error) {
    end_all(*bootstrap, error.what(), error.kind());
  } catch (const std::exception& error) {
    end_all(*bootstrap, fmt::format("{}\n  fix: this is a bug; report it with the command that shows it", error.what()),
            ErrorKind::internal);
  }
  return static_cast<int>(ErrorKind::internal);
}

int run_with_ranks(const Settings& settings, const std::vector<std::string>& arguments,
                   const std::function<int(const std::string& bootstrap_name)>& as_rank) {
  const int ranks = std::stoi(settings.at("ranks").values[0]);
  if (ranks > 1) return launch_self(ranks, arguments);
  const auto& transports = settings.at("transport").values;
  const bool needs_mpi = std::find(transports.begin(), transports.end(), "mpi") != transports.end();
  return as_rank(needs_mpi ? "mpi" : "solo");
}

Settings load_on_all_ranks(Bootstrap& bootstrap, const SettingsOptions& options, const std::vector<Machine>& machines,
                           Purpose purpose) {
  Settings settings;
  run_on_all(bootstrap, [&] {
    SettingsSources sources = options.sources();
    sources.purpose = purpose;
    if (started_by_mpirun()) sources.world_size = bootstrap.size();
    settings = load_settings(sources);
  });
  require_equal_settings(bootstrap, machines, settings_yaml(settings, Origins::hidden));
  return settings;
}

RunInfo describe_run(const std::vector<Machine>& machines, std::vector<std::string> arguments) {
  RunInfo info;
  info.arguments = std::move(arguments);
  info.started = utc_now();
  info.build = build_info();
  info.libraries = library_lines();
  info.environment = recorded_environment();
  std::set<std::string> seen;
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    const Machine& machine = machines[rank];
    info.ranks.push_back(
        {static_cast<int>(rank), machine.host, machine.cpus, cores_of(machines, static_cast<int>(rank))});
    if (seen.insert(machine.host).second) info.nodes.push_back(machine);
  }
  return info;
}

void describe_compute(RunInfo& info, const ComputeConfig& compute) {
  const auto capabilities = make_compute(compute.name, {})->capabilities();
  info.compute_device = capabilities.device;
  info.compute_library = capabilities.loaded_library;
}

void catch_signals() {
  std::signal(SIGTERM, remember_signal);
  std::signal(SIGINT, remember_signal);
}

bool is_interrupted() {
  return received_signal != 0;
}

int interrupted_exit_code() {
  return 128 + (received_signal != 0 ? received_signal : SIGTERM);
}

void print_error(const std::string& text) {
  std::fputs(("error: " + text + "\n").c_str(), stderr);
}

}  // namespace mrb
