#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "bench/runner.hpp"
#include "cli/child_process.hpp"
#include "cli/cli.hpp"
#include "cli/rank_main.hpp"
#include "cli/tune_session.hpp"
#include "cli/tune_supervisor.hpp"
#include "cluster/agree.hpp"
#include "config/fields.hpp"
#include "report/json.hpp"
#include "report/stored_run.hpp"
#include "tune/budget.hpp"

namespace mrb {

namespace {

struct TuneArguments {
  SettingsOptions settings;
  std::vector<std::string> budget;
  double tie_ratio = TunePolicy{}.tie_ratio;
  std::string metric = "step_mean";
  double launch_limit_s = 300;
  bool only_lists = false;
  bool is_unfit = false;
  bool is_isolated = false;  // new processes for each launch
  std::string resumed;       // folder
  std::string replayed;      // file
};

// The engine's seeds have 64 bits, and settings 53.
std::uint64_t workload_seed(const TuneLaunch& launch) {
  return launch.seed >> 11;
}

std::string fingerprint_of(const RunInfo& info) {
  std::string libraries;
  for (const LibraryLine& line : info.libraries) libraries += line.name + "=" + line.loaded + "\n";
  const Machine& node = info.nodes.front();
  return fmt::format("{} {} {}, {} rank{} on {} x {} ({} cores), libraries {}", info.build.version, info.build.commit,
                     info.build.build_type, info.ranks.size(), info.ranks.size() == 1 ? "" : "s", info.nodes.size(),
                     node.processor, node.cores_allowed, short_hash(libraries));
}

// Everything about the session that the settings and the machines decide.
std::unique_ptr<TuneSession> open_session(const TuneArguments& arguments, const Settings& settings, TuneSpace space,
                                          const std::vector<Machine>& machines,
                                          const std::vector<std::string>& command_line) {
  RunInfo info = describe_run(machines, command_line);
  info.settings = settings;
  const Config& baseline = space.experiments.front().config;
  describe_compute(info, baseline.compute);
  const JournalHead head{.fingerprint = fingerprint_of(info),
                         .metric = arguments.metric,
                         .launch_limit_s = arguments.launch_limit_s,
                         .is_isolated = arguments.is_isolated,
                         .policy = {.budget = parse_budget(arguments.budget, baseline.ranks),
                                    .tie_ratio = arguments.tie_ratio,
                                    .seed = baseline.seed},
                         .candidates = space.candidates};
  auto session = std::make_unique<TuneSession>(std::move(info), std::move(space), head, arguments.resumed);
  std::fputs(folder_line(session->folder()).c_str(), stderr);
  session->print_cost();
  return session;
}

struct Measured {
  TuneRecord record;
  std::vector<StepWork> work;
};

// What a run of one candidate has found.
void read_run(const StoredRun& run, const std::string& metric, Measured& measured) {
  if (run.cells.size() != 1 || run.cells[0].launches.empty()) return;
  const auto& launches = run.cells[0].launches;
  double sum_ms = 0;
  for (const StoredLaunch& launch : launches)
    sum_ms += metric == "step_p99" ? step_ms_p99(launch) : step_ms_mean(launch);
  measured.record.step_s = sum_ms / static_cast<double>(launches.size()) / 1e3;
  for (const StoredStep& step : launches.front().steps) measured.work.push_back({step.loss, step.log_prob_mean});
}

void require_measurement(Measured& measured) {
  TuneRecord& record = measured.record;
  if (record.outcome != LaunchOutcome::measured || record.step_s > 0) return;
  record.outcome = LaunchOutcome::failed;
  record.reason = "it ended well and left no measured step";
}

// Ends a child that takes too long: asked first, so that it can end its ranks, and then made to.
class Deadline final : public ChildWatch {
 public:
  explicit Deadline(double limit_s) : limit_s_(limit_s), began_ns_(clock_.now_ns()) {}

  void hear(std::string_view) override {}
  int signal_due() override {
    constexpr double kGrace_s = 2;
    const double past_s = ns_to_s(clock_.now_ns() - began_ns_) - limit_s_;
    if (past_s < 0) return 0;
    const int signal = !has_passed_ ? SIGTERM : past_s > kGrace_s ? SIGKILL : 0;
    has_passed_ = true;
    return signal;
  }
  bool has_passed() const { return has_passed_; }

 private:
  const SteadyClock clock_;
  double limit_s_;
  std::int64_t began_ns_;
  bool has_passed_ = false;
};

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// The last "error: ..." of a log, or else its last line.
std::string last_error(const std::string& log) {
  std::ifstream file(log);
  std::string last, error;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("error: ")) error = line.substr(7);
    if (!line.empty()) last = line;
  }
  return error.empty() ? last : error;
}

// Every launch is a `run` of new processes.
class TuneProcessLauncher {
 public:
  TuneProcessLauncher(const TuneArguments& arguments, TuneSession& session) : arguments_(arguments), session_(session) {
    std::filesystem::create_directories(session.folder() + "/candidates");
  }

  // Returns the exit code.
  int run(const std::vector<Experiment>& experiments) {
    while (const auto launch = session_.next()) {
      const Experiment& experiment = experiments[static_cast<std::size_t>(launch->candidate)];
      const std::optional<Measured> measured = measure(*launch, experiment);
      if (!measured) return session_.finish(128 + signal_);
      session_.add(measured->record, measured->work);
    }
    return session_.finish(0);
  }

 private:
  // Nothing when a signal came meanwhile.
  std::optional<Measured> measure(const TuneLaunch& launch, const Experiment& experiment) {
    const std::string name =
        fmt::format("{}/launches/{:03}-{}", session_.folder(), session_.launches() + 1, experiment.id);
    std::filesystem::remove_all(name);  // of a launch that was killed
    std::filesystem::create_directories(name);
    Deadline deadline(session_.launch_limit_s());
    const SteadyClock clock;
    const std::int64_t began_ns = clock.now_ns();
    const ChildEnd end = run_child(command(launch, experiment, name), name + ".log", "report this", &deadline);
    signal_ = end.signal_handed_on;
    if (signal_ != 0) return std::nullopt;
    Measured measured{.record = {.launch = launch, .elapsed_s = ns_to_s(clock.now_ns() - began_ns)}};
    TuneRecord& record = measured.record;
    if (deadline.has_passed()) {
      record.outcome = LaunchOutcome::hung;
      record.reason = fmt::format("it took longer than {:.0f} s", session_.launch_limit_s());
    } else if (end.exit_code == 0) {
      for (const auto& entry : std::filesystem::directory_iterator(name))
        read_run(read_stored_run(entry.path().string(), name), session_.head().metric, measured);
    } else {
      record.outcome = end.exit_code == static_cast<int>(ErrorKind::wrong_result) ? LaunchOutcome::wrong_result
                       : end.exit_code == static_cast<int>(ErrorKind::timeout)    ? LaunchOutcome::hung
                                                                                  : LaunchOutcome::failed;
      record.reason = fmt::format("exit code {}: {}", end.exit_code, last_error(name + ".log"));
    }
    require_measurement(measured);
    return measured;
  }

  // The candidate's settings are all in its file: what MRB_* variables say was heard when the space was made.
  std::vector<std::string> command(const TuneLaunch& launch, const Experiment& experiment,
                                   const std::string& directory) {
    const std::string file = fmt::format("{}/candidates/{}.yaml", session_.folder(), experiment.id);
    if (!std::filesystem::exists(file)) replace_file(file, config_yaml(experiment.config, {experiment.label}));
    std::vector<std::string> words = {"env"};
    for (const Field& field : fields()) words.insert(words.end(), {"-u", field.variable()});
    words.insert(words.end(), {std::filesystem::read_symlink("/proc/self/exe").string(), "run", file});
    words.insert(words.end(), {"--set", fmt::format("seed={}", workload_seed(launch))});
    words.insert(words.end(), {"--set", "measure.blocks=1", "--output-dir", directory});
    if (arguments_.is_unfit) words.push_back("--unfit");
    return words;
  }

  const TuneArguments& arguments_;
  TuneSession& session_;
  int signal_ = 0;
};

// Every launch makes everything anew but the processes, which are those that mpirun started. A rank that dies or hangs
// in the middle of a step ends them all; the journal has it then, and --resume goes on without that candidate.
class TuneRankLauncher {
 public:
  TuneRankLauncher(const TuneArguments& arguments, Bootstrap& bootstrap, const std::vector<std::string>& command_line)
      : bootstrap_(bootstrap), machines_(meet(bootstrap, read_machine())) {
    const Settings settings = load_on_all_ranks(bootstrap, arguments.settings, machines_, Purpose::tune);
    TuneSpace space = make_tune_space(settings, {.memory_bytes_per_rank = memory_bytes_per_rank(machines_),
                                                 .ranks_per_node = ranks_per_node(machines_)});
    experiments_ = space.experiments;
    if (arguments.only_lists) {
      listed_ = space_text(space);
      return;
    }
    run_on_all(bootstrap, [&] {
      if (bootstrap.rank() == 0)
        session_ = open_session(arguments, settings, std::move(space), machines_, command_line);
    });
  }

  int run() {
    if (!listed_.empty()) {
      std::fputs(listed_.c_str(), stdout);  // rank 0 alone has a stdout
      return 0;
    }
    catch_signals();
    bool interrupted = false;
    while (!interrupted) {
      const std::optional<TuneLaunch> launch = next();
      const auto index = bootstrap_.max(launch ? launch->candidate : -1);
      if (index < 0) break;
      const auto seed = bootstrap_.max(launch ? static_cast<std::int64_t>(workload_seed(*launch)) : 0);
      interrupted = !measure(experiments_[static_cast<std::size_t>(index)], static_cast<std::uint64_t>(seed), launch);
    }
    const int code = session_ ? session_->finish(interrupted ? interrupted_exit_code() : 0) : 0;
    return static_cast<int>(bootstrap_.max(code));
  }

 private:
  // On rank 0: the next launch that has not ended all ranks before.
  std::optional<TuneLaunch> next() {
    while (session_) {
      const std::optional<TuneLaunch> launch = session_->next();
      const std::optional<TuneRecord> lost = launch ? session_->lost(*launch) : std::nullopt;
      if (!lost) return launch;
      session_->add(*lost, {});
    }
    return std::nullopt;
  }

  // False when a signal came meanwhile. `launch`: on rank 0.
  bool measure(Experiment experiment, std::uint64_t seed, const std::optional<TuneLaunch>& launch) {
    experiment.config.seed = seed;
    experiment.is_baseline = true;
    const Plan plan{.experiments = {experiment}, .blocks = {{0}}};
    const bool is_first = checked_.insert(experiment.id).second;
    const RunnerHooks hooks{
        .interrupted = is_interrupted, .save = [](const RunRecord&) {}, .progress = [](const std::string&) {}};
    const std::int64_t began_ns = clock_.now_ns();
    RunRecord found;
    try {
      found = run_plan(plan, {bootstrap_, clock_, ranks_per_node(machines_), cores_of(machines_, bootstrap_.rank())},
                       hooks, is_first ? Rehearsal::yes : Rehearsal::no);
    } catch (const Error& error) {
      if (launch) {
        session_->add({.launch = *launch,
                       .outcome = error.kind() == ErrorKind::timeout ? LaunchOutcome::hung : LaunchOutcome::failed,
                       .elapsed_s = ns_to_s(clock_.now_ns() - began_ns),
                       .reason = first_line(error.what())},
                      {});
      }
      throw;
    }
    if (bootstrap_.max(found.status == "interrupted" ? 1 : 0) > 0) return false;
    if (!launch) return true;
    Measured measured{.record = {.launch = *launch, .elapsed_s = ns_to_s(clock_.now_ns() - began_ns)}};
    const Result& result = found.results.front();
    if (result.status == ResultStatus::failed) {
      measured.record.outcome = result.wrong ? LaunchOutcome::wrong_result : LaunchOutcome::failed;
      measured.record.reason = first_line(result.reason);
    } else {
      read_run(parse_stored_run(result_json(describe_run(machines_, {}), found), "launch"), session_->head().metric,
               measured);
    }
    require_measurement(measured);
    session_->add(measured.record, measured.work);
    return true;
  }

  Bootstrap& bootstrap_;
  const SteadyClock clock_;
  std::vector<Machine> machines_;  // by rank
  std::vector<Experiment> experiments_;
  std::string listed_;                    // the space, when it is all that was asked for
  std::set<std::string> checked_;         // ids of experiments whose dispatchers agreed with the reference
  std::unique_ptr<TuneSession> session_;  // rank 0
};

// What a session asked for is in its folder, so nothing may be asked for again.
void check(TuneArguments& arguments) {
  if (arguments.resumed.empty()) return;
  const SettingsOptions& given = arguments.settings;
  if (!given.file.empty() || !given.sets.empty() || !given.flags.empty() || !arguments.budget.empty()) {
    throw Error(ErrorKind::config, "--resume goes on with what the session was begun with, and there are new settings",
                "leave them out, or tune anew");
  }
  while (arguments.resumed.size() > 1 && arguments.resumed.ends_with('/')) arguments.resumed.pop_back();
  arguments.settings.file = arguments.resumed + "/config.yaml";
  const JournalHead head = read_journal(arguments.resumed + "/journal.jsonl").head;
  arguments.metric = head.metric;
  arguments.is_isolated = head.is_isolated;
}

int tune(TuneArguments& arguments, const std::vector<std::string>& command_line) {
  if (!arguments.replayed.empty()) {
    const TuneOutcome outcome = tune_outcome(read_journal(arguments.replayed));
    std::fputs(tune_table(outcome).c_str(), stdout);
    return outcome.is_over ? exit_code_of(outcome.answer.end) : 0;
  }
  check(arguments);
  if (started_by_mpirun()) {
    std::unique_ptr<TuneRankLauncher> launcher;
    return run_as_rank("mpi", arguments.settings,
                       {.prepare =
                            [&](Bootstrap& bootstrap) {
                              launcher = std::make_unique<TuneRankLauncher>(arguments, bootstrap, command_line);
                            },
                        .execute = [&](Bootstrap&) { return launcher->run(); }});
  }
  SettingsSources sources = arguments.settings.sources();
  sources.purpose = Purpose::tune;
  const Settings settings = load_settings(sources);
  const std::vector<Machine> machines(static_cast<std::size_t>(std::stoi(settings.at("ranks").values[0])),
                                      read_machine());
  TuneSpace space = make_tune_space(
      settings, {.memory_bytes_per_rank = memory_bytes_per_rank(machines), .ranks_per_node = ranks_per_node(machines)});
  if (arguments.only_lists) {
    std::fputs(space_text(space).c_str(), stdout);
    return 0;
  }
  if (machines.size() > 1 && !arguments.is_isolated)
    return supervise_tune(static_cast<int>(machines.size()), command_line);
  const std::vector<Experiment> experiments = space.experiments;
  const auto session = open_session(arguments, settings, std::move(space), machines, command_line);
  return TuneProcessLauncher(arguments, *session).run(experiments);
}

}  // namespace

void add_tune_command(CLI::App& app, const std::vector<std::string>& command_line, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("tune", "Which settings are best here, found within this budget, and how sure is that?");
  const auto arguments = std::make_shared<TuneArguments>();
  command->add_flag("--list-space", arguments->only_lists,
                    "Print the axes, how many candidates there are, and what was excluded and why");
  command
      ->add_option("--budget", arguments->budget,
                   "A time (30m), '200 launches' or '50 gpu-h' (a rank is a GPU); as often as needed")
      ->take_all()
      ->type_name("LIMIT");
  command->add_option("--tie", arguments->tie_ratio, "Candidates closer than this are as good as each other")
      ->check(CLI::Range(1e-4, 0.5))
      ->capture_default_str();
  command->add_option("--metric", arguments->metric, "Time of a counted step, of the slowest rank")
      ->check(CLI::IsMember(tune_metrics()))
      ->capture_default_str();
  command
      ->add_option("--launch-limit-s", arguments->launch_limit_s,
                   "A launch that takes longer hangs; and so does one of 5 times the baseline's, but at least 10 s")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  command->add_flag("--isolate", arguments->is_isolated,
                    "Start new processes for each launch, instead of ranks that stay and make all else anew; with one "
                    "rank it is always so");
  command->add_flag("--unfit", arguments->is_unfit,
                    "With processes of their own: launch although doctor refuses this machine");
  const auto resume =
      command->add_option("--resume", arguments->resumed, "Go on with the session in this folder")->type_name("DIR");
  command
      ->add_option("--replay", arguments->replayed,
                   "Run the tuner on this journal.jsonl and print what it finds; nothing is launched")
      ->type_name("JOURNAL")
      ->excludes(resume);
  arguments->settings.add_to(*command);
  command->callback([=, &exit_code] { exit_code = tune(*arguments, command_line); });
}

}  // namespace mrb
