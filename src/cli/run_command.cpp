#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "bench/plan.hpp"
#include "bench/runner.hpp"
#include "bench/traffic_meter.hpp"
#include "cli/cli.hpp"
#include "cli/rank_main.hpp"
#include "cluster/agree.hpp"
#include "doctor/read_facts.hpp"
#include "report/diagnosis_report.hpp"
#include "report/json.hpp"
#include "report/results_folder.hpp"
#include "report/table.hpp"
#include "report/tuned.hpp"

namespace mrb {

namespace {

enum class DryRun { no, yes };

// Whether to run although doctor refuses.
enum class Unfit { refused, allowed };

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
  Run(Bootstrap& bootstrap, const SettingsOptions& options)
      : bootstrap_(bootstrap), options_(options), machines_(meet(bootstrap, read_machine())) {}

  void make_plan() {
    settings_ = load_on_all_ranks(bootstrap_, options_, machines_, Purpose::run);
    plan_ = mrb::make_plan(settings_, limits_of(machines_));
  }

  const Plan& plan() const { return plan_; }

  // The checks that take no time. What they warn of is a note of the results.
  void examine(Facts mine, Unfit unfit) {
    for (const Experiment& experiment : plan_.experiments) {
      const TransportConfig& transport = experiment.config.transport;
      if (mine.provider == "efa") break;
      mine.transport = transport.name;
      mine.provider = transport.name == "libfabric" ? transport.provider : "";
    }
    diagnosis_ = diagnose(gather_facts(bootstrap_, std::move(mine)));
    const auto refusals = finding_lines(diagnosis_, Severity::refuse);
    if (!refusals.empty() && unfit == Unfit::refused) {
      throw Error(ErrorKind::environment,
                  fmt::format("doctor refuses to measure here:\n  {}", fmt::join(refusals, "\n  ")),
                  "moe-rl-bench doctor says how to put it right; --unfit runs all the same, and marks the results");
    }
    for (const Severity severity : {Severity::refuse, Severity::warn}) {
      for (const std::string& line : finding_lines(diagnosis_, severity))
        plan_.notes.push_back("not comparable: " + line);
    }
    for (const std::string& line : finding_lines(diagnosis_, Severity::note)) plan_.notes.push_back(line);
  }

  void open_results(const std::vector<std::string>& arguments) {
    run_on_all(bootstrap_, [&] {
      if (bootstrap_.rank() != 0) return;
      info_ = describe_run(machines_, arguments);
      info_.settings = settings_;
      info_.diagnosis = diagnosis_;
      info_.id = ResultsFolder::new_id();
      const Config& config = plan_.experiments.front().config;
      describe_compute(info_, config.compute);
      folder_ = std::make_unique<ResultsFolder>(config.output.dir, info_.id);
      folder_->write("config.yaml", settings_yaml(info_.settings, Origins::hidden));
    });
  }

  int execute() {
    catch_signals();
    const SteadyClock clock;
    const RunnerHooks hooks{.interrupted = is_interrupted,
                            .save = [&](const RunRecord& record) { save(record); },
                            .progress = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }};
    const RunRecord record =
        run_plan(plan_, {bootstrap_, clock, ranks_per_node(machines_), cores_of(machines_, bootstrap_.rank())}, hooks);
    if (bootstrap_.rank() == 0) std::fputs(run_table(info_, record, folder_->path()).c_str(), stdout);
    const int code = record.status == "interrupted" ? interrupted_exit_code() : exit_code_of(record);
    return static_cast<int>(bootstrap_.max(bootstrap_.rank() == 0 ? code : 0));
  }

 private:
  void save(const RunRecord& record) {
    if (record.status != "running") info_.ended = utc_now();
    info_.diagnosis = diagnosis_;
    for (const Result& result : record.results) doubt(result);
    folder_->write("result.json", result_json(info_, record));
    for (const TunedConfig& tuned : tuned_configs(info_, record)) folder_->write(tuned.file, tuned.yaml);
  }

  // What only the launches can show: where the bytes went.
  void doubt(const Result& result) {
    for (const LaunchSample& launch : result.launches) {
      const std::string problem = efa_doubt(launch);
      if (problem.empty()) continue;
      info_.diagnosis.findings.push_back(
          {.id = "efa-traffic",
           .scope = Scope::job,
           .severity = Severity::warn,
           .problem = result.experiment.label + ": " + problem,
           .reads = "the devices' tx_bytes around each launch",
           .why = "the bytes did not go over EFA, whatever the logs say",
           .fix = "moe-rl-bench doctor --network; FI_LOG_LEVEL=info says what libfabric chose"});
      return;
    }
  }

  Bootstrap& bootstrap_;
  const SettingsOptions& options_;
  std::vector<Machine> machines_;  // by rank
  Settings settings_;
  Plan plan_;
  Diagnosis diagnosis_;
  RunInfo info_;
  std::unique_ptr<ResultsFolder> folder_;  // rank 0
};

int run_as_rank(const std::string& bootstrap_name, const SettingsOptions& options,
                const std::vector<std::string>& arguments, DryRun dry, Unfit unfit) {
  const Facts facts = read_facts();  // before MPI starts: what this rank has is what its launcher gave it
  std::unique_ptr<Run> run;
  const RankMain main{.prepare =
                          [&](Bootstrap& bootstrap) {
                            run = std::make_unique<Run>(bootstrap, options);
                            run->make_plan();
                            if (dry == DryRun::yes) return;
                            run->examine(facts, unfit);
                            run->open_results(arguments);
                          },
                      .execute =
                          [&](Bootstrap& bootstrap) {
                            if (dry == DryRun::no) return run->execute();
                            if (bootstrap.rank() == 0) std::fputs(plan_text(run->plan()).c_str(), stdout);
                            return 0;
                          }};
  return run_as_rank(bootstrap_name, options, main);
}

// What would run if all ranks were started on this machine.
std::string dry_run_text(const Settings& settings, int ranks, const std::vector<std::string>& arguments) {
  const std::vector<Machine> machines(static_cast<std::size_t>(ranks), read_machine());
  std::string text = plan_text(make_plan(settings, limits_of(machines)));
  if (ranks > 1) text += fmt::format("starts {}\n", fmt::join(mpirun_command(ranks, arguments), " "));
  return text;
}

int run(const SettingsOptions& options, const std::vector<std::string>& arguments, DryRun dry, Unfit unfit) {
  if (started_by_mpirun()) return run_as_rank("mpi", options, arguments, dry, unfit);
  const Settings settings = load_settings(options.sources());  // faults are shown here, once, before any rank starts
  if (dry == DryRun::yes) {
    std::fputs(dry_run_text(settings, std::stoi(settings.at("ranks").values[0]), arguments).c_str(), stdout);
    return 0;
  }
  return run_with_ranks(settings, arguments, [&](const std::string& bootstrap) {
    return run_as_rank(bootstrap, options, arguments, dry, unfit);
  });
}

}  // namespace

void add_run_command(CLI::App& app, std::vector<std::string> arguments, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("run", "How fast are whole GRPO steps, and by how much do the variants differ?");
  const auto options = std::make_shared<SettingsOptions>();
  const auto is_dry = std::make_shared<bool>(false);
  command->add_flag("--dry-run", *is_dry, "Print what would run, in which order, and what would be skipped and why");
  const auto is_unfit = std::make_shared<bool>(false);
  command->add_flag("--unfit", *is_unfit,
                    "Run although doctor refuses this machine; the results are marked as not comparable");
  options->add_to(*command);
  command->callback([=, &exit_code] {
    exit_code =
        run(*options, arguments, *is_dry ? DryRun::yes : DryRun::no, *is_unfit ? Unfit::allowed : Unfit::refused);
  });
}

}  // namespace mrb
