#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "base/units.hpp"
#include "bench/plan.hpp"
#include "bench/runner.hpp"
#include "cli/ab_session.hpp"
#include "cli/child_process.hpp"
#include "cli/cli.hpp"
#include "cli/rank_main.hpp"
#include "cluster/agree.hpp"
#include "cluster/bootstrap.hpp"
#include "report/json.hpp"

namespace mrb {

namespace {

struct SideArguments {
  std::string file;
  std::vector<std::string> sets;  // of this side alone
  std::string binary;             // empty: this program
};

struct AbArguments {
  SideArguments before, after;
  std::vector<std::string> sets;
  std::string ranks;
  AbOptions ab;

  const SideArguments& side(Side which) const { return which == Side::before ? before : after; }
};

// Of one side, as `run` would read them.
SettingsOptions settings_options(const AbArguments& arguments, Side which) {
  SettingsOptions options{.file = arguments.side(which).file, .sets = arguments.sets};
  const auto& own = arguments.side(which).sets;
  options.sets.insert(options.sets.end(), own.begin(), own.end());
  if (!arguments.ranks.empty()) options.flags.emplace_back("ranks", arguments.ranks);
  return options;
}

// The last of what a launch that failed has said.
std::string last_lines(const std::string& log) {
  constexpr std::size_t kLines = 12;
  std::ifstream file(log);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  std::string text;
  for (std::size_t i = lines.size() > kLines ? lines.size() - kLines : 0; i < lines.size(); ++i)
    text += "\n  " + lines[i];
  return text;
}

ErrorKind kind_of(int exit_code) {
  for (const ErrorKind kind : {ErrorKind::config, ErrorKind::wrong_result, ErrorKind::environment, ErrorKind::timeout,
                               ErrorKind::partial, ErrorKind::not_comparable}) {
    if (static_cast<int>(kind) == exit_code) return kind;
  }
  return ErrorKind::internal;
}

std::string only_result_below(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path() / "result.json", std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  return "";
}

// Every launch is a run of new processes, with both binaries on the same machine.
class ProcessLauncher {
 public:
  explicit ProcessLauncher(const AbArguments& arguments) : arguments_(arguments), session_(arguments.ab) {
    for (const Side which : {Side::before, Side::after}) {
      if (!arguments.side(which).binary.empty()) continue;
      SettingsOptions options = settings_options(arguments, which);
      load_settings(options.sources());  // faults are shown before anything starts
    }
  }

  int run() {
    const SteadyClock clock;
    const AbOutcome outcome = run_ab(arguments_.ab.plan, clock,
                                     {.launch = [&](Side which, int pair) { launch(which, pair, clock); },
                                      .decided = [&](int) { return session_.decided(); },
                                      .agree_max = [](double mine) { return mine; },
                                      .interrupted = [&] { return signal_ != 0; }});
    return session_.finish(outcome, 128 + signal_);
  }

 private:
  void launch(Side which, int pair, const Clock& clock) {
    const std::string name = fmt::format("{}/launches/{:03}-{}", session_.folder(), pair, side_text(which));
    std::filesystem::create_directories(name);
    const std::int64_t began_ns = clock.now_ns();
    const ChildEnd end = run_child(command(which, name), name + ".log", "give the path of a moe-rl-bench binary");
    signal_ = end.signal_handed_on;
    if (signal_ != 0) return;
    if (end.exit_code != 0) {
      throw Error(kind_of(end.exit_code),
                  fmt::format("launch {} of side {} ended with exit code {}:{}", pair, side_text(which), end.exit_code,
                              last_lines(name + ".log")),
                  fmt::format("see {}.log", name));
    }
    session_.add(which, only_result_below(name), ns_to_s(clock.now_ns() - began_ns));
  }

  std::vector<std::string> command(Side which, const std::string& directory) const {
    const SideArguments& side = arguments_.side(which);
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> words = {side.binary.empty() ? self : side.binary, "run"};
    if (!side.file.empty()) words.push_back(side.file);
    std::vector<std::string> sets = settings_options(arguments_, which).sets;
    sets.push_back("measure.blocks=1");
    if (!arguments_.ranks.empty()) sets.push_back("ranks=" + arguments_.ranks);
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    words.insert(words.end(), {"--output-dir", directory});
    return words;
  }

  const AbArguments& arguments_;
  AbSession session_;
  int signal_ = 0;
};

// Every launch makes everything anew but the processes, which are those that mpirun started.
class RankLauncher {
 public:
  RankLauncher(const AbArguments& arguments, Bootstrap& bootstrap) : arguments_(arguments), bootstrap_(bootstrap) {
    machines_ = meet(bootstrap, read_machine());
    for (const Side which : {Side::before, Side::after}) {
      Part& side = part(which);
      const SettingsOptions options = settings_options(arguments, which);
      side.settings = load_on_all_ranks(bootstrap, options, machines_, Purpose::run);
      side.plan = make_plan(side.settings, {.memory_bytes_per_rank = memory_bytes_per_rank(machines_),
                                            .ranks_per_node = ranks_per_node(machines_)});
      side.plan.blocks.resize(1);
    }
    run_on_all(bootstrap, [&] {
      if (bootstrap.rank() == 0) session_ = std::make_unique<AbSession>(arguments.ab);
    });
  }

  int run() {
    catch_signals();
    const auto agree = [&](bool mine) { return bootstrap_.max(mine ? 1 : 0) > 0; };
    const AbOutcome outcome =
        run_ab(arguments_.ab.plan, clock_,
               {.launch = [&](Side which, int pair) { launch(which, pair); },
                .decided = [&](int) { return agree(bootstrap_.rank() == 0 && session_->decided()); },
                .agree_max = [&](double mine) { return ns_to_s(bootstrap_.max(s_to_ns(mine))); },
                .interrupted = [&] { return agree(is_interrupted()); }});
    const int code = session_ ? session_->finish(outcome, interrupted_exit_code()) : 0;
    return static_cast<int>(bootstrap_.max(code));
  }

 private:
  struct Part {
    Settings settings;
    Plan plan;
  };
  Part& part(Side which) { return which == Side::before ? before_ : after_; }

  void launch(Side which, int pair) {
    const std::int64_t began_ns = clock_.now_ns();
    const Part& side = part(which);
    const RunnerHooks hooks{
        .interrupted = is_interrupted, .save = [](const RunRecord&) {}, .progress = [](const std::string&) {}};
    RunRecord record =
        run_plan(side.plan, {bootstrap_, clock_, ranks_per_node(machines_), cores_of(machines_, bootstrap_.rank())},
                 hooks, pair == 0 ? Rehearsal::yes : Rehearsal::no);
    if (record.status == "interrupted" || bootstrap_.rank() != 0) return;
    RunInfo info = describe_run(machines_, {});
    info.settings = side.settings;
    describe_compute(info, side.plan.experiments.front().config.compute);
    info.ended = utc_now();
    session_->add(which, result_json(info, record), ns_to_s(clock_.now_ns() - began_ns));
  }

  const AbArguments& arguments_;
  Bootstrap& bootstrap_;
  const SteadyClock clock_;
  std::vector<Machine> machines_;
  Part before_, after_;
  std::unique_ptr<AbSession> session_;  // rank 0
};

void check(AbArguments& arguments) {
  AbPlan& plan = arguments.ab.plan;
  const bool rises = std::is_sorted(plan.looks.begin(), plan.looks.end(), std::less_equal<>());
  const bool even = std::all_of(plan.looks.begin(), plan.looks.end(), [](int pairs) { return pairs % 2 == 0; });
  if (!rises || !even) {
    throw Error(ErrorKind::config, fmt::format("--pairs {} are not even numbers that rise", fmt::join(plan.looks, ",")),
                "give them like 8,16,24: blocks have two pairs");
  }
  const bool has_after =
      !arguments.after.file.empty() || !arguments.after.sets.empty() || !arguments.after.binary.empty();
  if (arguments.ab.is_same && has_after)
    throw Error(ErrorKind::config, "--aa measures A against itself, and there is a second side",
                "leave out one of both");
  if (!arguments.ab.is_same && !has_after)
    throw Error(ErrorKind::config, "there is nothing to compare with",
                "give a second file, --set-after or --after-binary; or --aa, to measure the noise of this machine");
  if (arguments.after.file.empty()) arguments.after.file = arguments.before.file;
  if (arguments.ab.is_same) arguments.after = arguments.before;
  const bool has_binary = !arguments.before.binary.empty() || !arguments.after.binary.empty();
  if (started_by_mpirun() && has_binary)
    throw Error(ErrorKind::config, "under mpirun the processes are given, so a binary cannot be chosen",
                "start ab without mpirun; it starts the ranks itself");
}

int ab(AbArguments& arguments) {
  check(arguments);
  if (!started_by_mpirun()) return ProcessLauncher(arguments).run();
  std::unique_ptr<RankLauncher> launcher;
  return run_as_rank(
      "mpi", settings_options(arguments, Side::before),
      {.prepare = [&](Bootstrap& bootstrap) { launcher = std::make_unique<RankLauncher>(arguments, bootstrap); },
       .execute = [&](Bootstrap&) { return launcher->run(); }});
}

}  // namespace

void add_ab_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "ab", "Did this change make it slower? Two configurations or binaries, launched in turn until a verdict stands");
  const auto arguments = std::make_shared<AbArguments>();
  arguments->ab.plan.looks = {8, 16, 24};
  command->add_option("before", arguments->before.file, "YAML file of A; without one, all defaults hold");
  command->add_option("after", arguments->after.file, "YAML file of B; without one, that of A");
  command->add_option("--ranks", arguments->ranks, "Processes of each launch; without mpirun they are started anew");
  const auto sets = [&](const char* name, std::vector<std::string>& values, const char* sentence) {
    command->add_option(name, values, sentence)->type_name("KEY=VALUE")->take_all();
  };
  sets("--set", arguments->sets, "Set one key of both sides, as often as needed");
  sets("--set-before", arguments->before.sets, "The same of A alone");
  sets("--set-after", arguments->after.sets, "The same of B alone");
  command->add_option("--before-binary", arguments->before.binary, "Another build of this program for A");
  command->add_option("--after-binary", arguments->after.binary, "Another build of this program for B");
  command->add_flag("--aa", arguments->ab.is_same, "A against itself: how much do equal launches differ here?");
  command
      ->add_option("--pairs", arguments->ab.plan.looks,
                   "Pairs after which the verdict is asked for (each look has its part of alpha); one number: fixed")
      ->delimiter(',')
      ->check(CLI::Range(4, 10000))
      ->capture_default_str();
  command->add_option("--time-limit-s", arguments->ab.plan.time_limit_s, "Begin no block after this; 0: no limit")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command->add_option("--seed", arguments->ab.plan.seed, "Decides which side begins each block")->capture_default_str();
  command->add_option("--results-dir", arguments->ab.results_dir, "Each session makes a new folder in it")
      ->capture_default_str();
  arguments->ab.gate.add_to(*command);
  command->callback([=, &exit_code] { exit_code = ab(*arguments); });
}

}  // namespace mrb
