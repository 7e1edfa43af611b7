#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "bench/neighbours.hpp"
#include "bench/plan.hpp"
#include "bench/runner.hpp"
#include "cli/cli.hpp"
#include "cluster/agree.hpp"
#include "compute/backend.hpp"
#include "report/json.hpp"
#include "report/results_folder.hpp"
#include "report/table.hpp"
#include "report/tuned.hpp"

namespace mrb {

namespace {

enum class DryRun { no, yes };

volatile std::sig_atomic_t received_signal = 0;

void remember_signal(int signal) {
  received_signal = signal;
}

void print_error(const std::string& text) {
  std::fputs(("error: " + text + "\n").c_str(), stderr);
}

PlanLimits limits_of(const std::vector<Machine>& machines) {
  return {.memory_bytes_per_rank = memory_bytes_per_rank(machines), .ranks_per_node = ranks_per_node(machines)};
}

std::string plan_text(const Plan& plan) {
  std::string text;
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  for (const Experiment& experiment : plan.experiments) {
    text += fmt::format("{}  {}{}\n", experiment.id, experiment.label, experiment.is_baseline ? "  (baseline)" : "");
  }
  for (const SkippedExperiment& skipped : plan.skipped) {
    text += fmt::format("{}  {}  skipped: {}\n", skipped.experiment.id, skipped.experiment.label, skipped.reason);
  }
  std::size_t launches = 0;
  for (std::size_t block = 0; block < plan.blocks.size(); ++block) {
    text += fmt::format("block {}:", block + 1);
    for (const int index : plan.blocks[block])
      text += fmt::format(" [{}]", plan.experiments[static_cast<std::size_t>(index)].label);
    text += "\n";
    launches += plan.blocks[block].size();
  }
  const MeasureConfig& measure = plan.experiments.front().config.measure;
  return text +
         fmt::format("{} launches of {} warm-up and {} counted steps\n", launches, measure.warmup_steps, measure.steps);
}

class Run {
 public:
  Run(Bootstrap& bootstrap, const SettingsOptions& options, std::vector<std::string> arguments)
      : bootstrap_(bootstrap), options_(options), machines_(meet(bootstrap, read_machine())) {
    info_.arguments = std::move(arguments);
  }

  // What fails in here fails on all ranks alike.
  void make_plan() {
    run_on_all(bootstrap_, [&] {
      SettingsSources sources = options_.sources();
      if (started_by_mpirun()) sources.world_size = bootstrap_.size();
      info_.settings = load_settings(sources);
    });
    require_equal_settings(bootstrap_, machines_, settings_yaml(info_.settings, Origins::hidden));
    plan_ = mrb::make_plan(info_.settings, limits_of(machines_));
  }

  const Plan& plan() const { return plan_; }

  // The same holds here.
  void open_results() {
    run_on_all(bootstrap_, [&] {
      if (bootstrap_.rank() != 0) return;
      info_.id = ResultsFolder::new_id();
      folder_ = std::make_unique<ResultsFolder>(plan_.experiments.front().config.output.dir, info_.id);
      folder_->write("config.yaml", settings_yaml(info_.settings, Origins::hidden));
      describe();
    });
  }

  int execute() {
    std::signal(SIGTERM, remember_signal);
    std::signal(SIGINT, remember_signal);
    const SteadyClock clock;
    const RunnerHooks hooks{.interrupted = [] { return received_signal != 0; },
                            .save = [&](const RunRecord& record) { save(record); },
                            .progress = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }};
    const RunRecord record =
        run_plan(plan_, {bootstrap_, clock, ranks_per_node(machines_), cores_of(machines_, bootstrap_.rank())}, hooks);
    if (bootstrap_.rank() == 0) std::fputs(run_table(info_, record, folder_->path()).c_str(), stdout);
    const int code = record.status == "interrupted" ? 128 + (received_signal != 0 ? received_signal : SIGTERM)
                                                    : exit_code_of(record);
    return static_cast<int>(bootstrap_.max(bootstrap_.rank() == 0 ? code : 0));
  }

 private:
  void describe() {
    info_.started = utc_now();
    info_.build = build_info();
    info_.libraries = library_lines();
    info_.environment = recorded_environment();
    std::set<std::string> seen;
    for (std::size_t rank = 0; rank < machines_.size(); ++rank) {
      const Machine& machine = machines_[rank];
      info_.ranks.push_back(
          {static_cast<int>(rank), machine.host, machine.cpus, cores_of(machines_, static_cast<int>(rank))});
      if (seen.insert(machine.host).second) info_.nodes.push_back(machine);
    }
    const Config& config = plan_.experiments.front().config;
    const auto capabilities = make_compute(config.compute.name, {})->capabilities();
    info_.compute_device = capabilities.device;
    info_.compute_library = capabilities.library;
  }

  void save(const RunRecord& record) {
    if (record.status != "running") info_.ended = utc_now();
    folder_->write("result.json", result_json(info_, record));
    for (const TunedConfig& tuned : tuned_configs(info_, record)) folder_->write(tuned.file, tuned.yaml);
  }

  Bootstrap& bootstrap_;
  const SettingsOptions& options_;
  std::vector<Machine> machines_;  // by rank
  RunInfo info_;
  Plan plan_;
  std::unique_ptr<ResultsFolder> folder_;  // rank 0
};

// The ranks that wait for one that has stopped all find out at the same moment. The first speaks and ends them all,
// which takes mpirun a second or two; the second is there in case the first is the one that has stopped.
void let_the_first_speak(const Error& error, int rank) {
  constexpr int kSecondsPerRank = 3, kSecondsMax = 6;
  if (error.kind() != ErrorKind::timeout) return;
  std::this_thread::sleep_for(std::chrono::seconds(std::min(rank * kSecondsPerRank, kSecondsMax)));
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

int run_as_rank(const std::string& bootstrap_name, const SettingsOptions& options,
                const std::vector<std::string>& arguments, DryRun dry) {
  const auto bootstrap = make_bootstrap(bootstrap_name, {.timeout_s = meeting_timeout_s(options)});
  Run run(*bootstrap, options, arguments);
  try {
    run.make_plan();
    if (dry == DryRun::yes) {
      if (bootstrap->rank() == 0) std::fputs(plan_text(run.plan()).c_str(), stdout);
      return 0;
    }
    run.open_results();
  } catch (const Error& error) {
    if (bootstrap->rank() == 0) print_error(error.what());
    return error.exit_code();
  }
  const auto end_all = [&](const std::string& text, int code) {
    print_error(bootstrap->size() == 1 ? text
                                       : fmt::format("[rank {} of {}, node {}] {}", bootstrap->rank(),
                                                     bootstrap->size(), read_machine().host, text));
    std::fflush(stderr);
    bootstrap->abort(code);
  };
  try {
    return run.execute();
  } catch (const Error& error) {
    let_the_first_speak(error, bootstrap->rank());
    end_all(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    end_all(fmt::format("{}\n  fix: this is a bug; report it with the command that shows it", error.what()),
            static_cast<int>(ErrorKind::internal));
  }
  return static_cast<int>(ErrorKind::internal);
}

// What would run if all ranks were started on this machine.
std::string dry_run_text(const Settings& settings, int ranks, const std::vector<std::string>& arguments) {
  const std::vector<Machine> machines(static_cast<std::size_t>(ranks), read_machine());
  std::string text = plan_text(make_plan(settings, limits_of(machines)));
  if (ranks > 1) text += fmt::format("starts {}\n", fmt::join(mpirun_command(ranks, arguments), " "));
  return text;
}

int run(const SettingsOptions& options, const std::vector<std::string>& arguments, DryRun dry) {
  if (started_by_mpirun()) return run_as_rank("mpi", options, arguments, dry);
  const Settings settings = load_settings(options.sources());  // faults are shown here, once, before any rank starts
  const int ranks = std::stoi(settings.at("ranks").values[0]);
  if (dry == DryRun::yes) {
    std::fputs(dry_run_text(settings, ranks, arguments).c_str(), stdout);
    return 0;
  }
  if (ranks > 1) return launch_self(ranks, arguments);
  const auto& transports = settings.at("transport").values;
  const bool needs_mpi = std::find(transports.begin(), transports.end(), "mpi") != transports.end();
  return run_as_rank(needs_mpi ? "mpi" : "solo", options, arguments, dry);
}

}  // namespace

void add_run_command(CLI::App& app, std::vector<std::string> arguments, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("run", "How fast are whole GRPO steps, and by how much do the variants differ?");
  const auto options = std::make_shared<SettingsOptions>();
  const auto is_dry = std::make_shared<bool>(false);
  command->add_flag("--dry-run", *is_dry, "Print what would run, in which order, and what would be skipped and why");
  options->add_to(*command);
  command->callback([=, &exit_code] { exit_code = run(*options, arguments, *is_dry ? DryRun::yes : DryRun::no); });
}

}  // namespace mrb
