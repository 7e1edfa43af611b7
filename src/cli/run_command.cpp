#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <set>
#include <thread>

#include "base/error.hpp"
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

volatile std::sig_atomic_t received_signal = 0;

void remember_signal(int signal) { received_signal = signal; }

void print_error(const std::string& text) { std::fputs(("error: " + text + "\n").c_str(), stderr); }

// What every rank says of itself, so that all know the node they share with others.
struct Neighbours {
  std::vector<RankInfo> ranks;
  int on_this_node = 0;
};

Neighbours meet(Bootstrap& bootstrap, const Machine& machine) {
  Neighbours neighbours;
  for (const auto& bytes : bootstrap.all_gather(std::as_bytes(std::span(machine.host)))) {
    std::string host(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    neighbours.on_this_node += host == machine.host ? 1 : 0;
    neighbours.ranks.push_back({static_cast<int>(neighbours.ranks.size()), std::move(host)});
  }
  return neighbours;
}

std::string plan_text(const Plan& plan) {
  std::string text;
  for (const Experiment& experiment : plan.experiments) {
    text += fmt::format("{}  {}{}\n", experiment.id, experiment.label, experiment.is_baseline ? "  (baseline)" : "");
  }
  for (const SkippedExperiment& skipped : plan.skipped) {
    text += fmt::format("{}  {}  skipped: {}\n", skipped.experiment.id, skipped.experiment.label, skipped.reason);
  }
  std::size_t launches = 0;
  for (std::size_t block = 0; block < plan.blocks.size(); ++block) {
    text += fmt::format("block {}:", block + 1);
    for (const int index : plan.blocks[block]) text += fmt::format(" [{}]", plan.experiments[static_cast<std::size_t>(index)].label);
    text += "\n";
    launches += plan.blocks[block].size();
  }
  const MeasureConfig& measure = plan.experiments.front().config.measure;
  return text + fmt::format("{} launches of {} warm-up and {} counted steps\n", launches, measure.warmup_steps, measure.steps);
}

int exit_code_of(const RunRecord& record) {
  if (record.status == "interrupted") return 128 + (received_signal != 0 ? received_signal : SIGTERM);
  for (const Result& result : record.results) {
    if (result.wrong || !result.same_work) return static_cast<int>(ErrorKind::wrong_result);
  }
  if (record.status == "failed") return static_cast<int>(ErrorKind::environment);
  return record.status == "partial" ? static_cast<int>(ErrorKind::partial) : 0;
}

class Run {
 public:
  Run(Bootstrap& bootstrap, const SettingsOptions& options, std::vector<std::string> arguments)
      : bootstrap_(bootstrap), options_(options), machine_(read_machine()), neighbours_(meet(bootstrap, machine_)) {
    info_.arguments = std::move(arguments);
  }

  // Settings, plan and results folder: what fails here fails on all ranks alike.
  void prepare() {
    run_on_all(bootstrap_, [&] {
      SettingsSources sources = options_.sources();
      if (started_by_mpirun()) sources.world_size = bootstrap_.size();
      info_.settings = load_settings(sources);
    });
    const auto share = machine_.memory_bytes / static_cast<std::uint64_t>(neighbours_.on_this_node) / 10 * 9;
    const auto least = -bootstrap_.max(-static_cast<std::int64_t>(share));
    plan_ = make_plan(info_.settings, {.memory_bytes_per_rank = static_cast<std::uint64_t>(least)});
    run_on_all(bootstrap_, [&] {
      if (bootstrap_.rank() != 0) return;
      info_.id = ResultsFolder::new_id();
      folder_ = std::make_unique<ResultsFolder>(plan_.experiments.front().config.output.dir, info_.id);
      folder_->write("config.yaml", settings_yaml(info_.settings, Origins::hidden));
    });
    if (bootstrap_.rank() == 0) describe();
  }

  int execute() {
    std::signal(SIGTERM, remember_signal);
    std::signal(SIGINT, remember_signal);
    const SteadyClock clock;
    const RunnerHooks hooks{.interrupted = [] { return received_signal != 0; },
                            .save = [&](const RunRecord& record) { save(record); },
                            .progress = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }};
    const int threads = std::max(1, machine_.cores_allowed / neighbours_.on_this_node);
    const RunRecord record = run_plan(plan_, {bootstrap_, clock, threads}, hooks);
    if (bootstrap_.rank() == 0) std::fputs(run_table(info_, record, folder_->path()).c_str(), stdout);
    return static_cast<int>(bootstrap_.max(bootstrap_.rank() == 0 ? exit_code_of(record) : 0));
  }

 private:
  void describe() {
    info_.started = utc_now();
    info_.build = build_info();
    info_.machine = machine_;
    info_.ranks = neighbours_.ranks;
    info_.libraries = library_lines();
    info_.environment = recorded_environment();
    const Config& config = plan_.experiments.front().config;
    const auto capabilities = make_compute(config.compute.name, {})->capabilities();
    info_.compute_device = capabilities.device;
    info_.compute_library = capabilities.library;
  }

  void save(const RunRecord& record) {
    folder_->write("result.json", result_json(info_, record));
    const std::string tuned = tuned_yaml(info_, record);
    if (!tuned.empty()) folder_->write("tuned.yaml", tuned);
  }

  Bootstrap& bootstrap_;
  const SettingsOptions& options_;
  Machine machine_;
  Neighbours neighbours_;
  RunInfo info_;
  Plan plan_;
  std::unique_ptr<ResultsFolder> folder_;  // rank 0
};

// The ranks that wait for one that has stopped all find out at the same moment. The first speaks and ends them all.
void let_the_first_speak(const Error& error, int rank) {
  constexpr int kMillisecondsPerRank = 200, kMillisecondsMax = 2000;
  if (error.kind() != ErrorKind::timeout) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(std::min(rank * kMillisecondsPerRank, kMillisecondsMax)));
}

int run_as_rank(const std::string& bootstrap_name, const SettingsOptions& options, const std::vector<std::string>& arguments) {
  const auto bootstrap = make_bootstrap(bootstrap_name, {});
  Run run(*bootstrap, options, arguments);
  try {
    run.prepare();
  } catch (const Error& error) {
    if (bootstrap->rank() == 0) print_error(error.what());
    return error.exit_code();
  }
  const auto end_all = [&](const std::string& text, int code) {
    print_error(bootstrap->size() == 1 ? text : fmt::format("[rank {} of {}, node {}] {}", bootstrap->rank(), bootstrap->size(), read_machine().host, text));
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

int run(const SettingsOptions& options, const std::vector<std::string>& arguments, bool is_dry) {
  if (started_by_mpirun() && !is_dry) return run_as_rank("mpi", options, arguments);
  const Settings settings = load_settings(options.sources());  // faults are shown here, once, before any rank starts
  const int ranks = std::stoi(settings.at("ranks").values[0]);
  if (is_dry) {
    std::fputs(plan_text(make_plan(settings, {})).c_str(), stdout);
    return 0;
  }
  if (ranks > 1) return launch_self(ranks, arguments);
  const auto& transports = settings.at("transport").values;
  const bool needs_mpi = std::find(transports.begin(), transports.end(), "mpi") != transports.end();
  return run_as_rank(needs_mpi ? "mpi" : "solo", options, arguments);
}

}  // namespace

void add_run_command(CLI::App& app, std::vector<std::string> arguments, int& exit_code) {
  CLI::App* command = app.add_subcommand("run", "How fast are whole GRPO steps, and by how much do the variants differ?");
  const auto options = std::make_shared<SettingsOptions>();
  const auto is_dry = std::make_shared<bool>(false);
  command->add_flag("--dry-run", *is_dry, "Print what would run, in which order, and what would be skipped and why");
  options->add_to(*command);
  command->callback([=, &exit_code] { exit_code = run(*options, arguments, *is_dry); });
}

}  // namespace mrb
