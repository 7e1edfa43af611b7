#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "report/baseline_history.hpp"
#include "report/run_info.hpp"

namespace mrb {

namespace {

struct BaselineArguments {
  std::string directory = "baselines";
  std::string results_dir = "results";
  std::string run;  // its id, or for save anything that compare takes
  std::string why;
  bool accepts_slower = false;
  int runs_max = 50;
};

std::string user_here() {
  const char* user = std::getenv("USER");
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("{}@{}", user != nullptr ? user : fmt::format("uid {}", ::getuid()), host);
}

Promotion promotion_of(const BaselineArguments& arguments, const std::string& run_id) {
  return {.run_id = run_id, .when = utc_now(), .who = user_here(), .why = arguments.why};
}

void save(const BaselineArguments& arguments) {
  const BaselineStore store(arguments.directory);
  const StoredRun run = read_stored_run(arguments.run, arguments.results_dir);
  refuse_as_baseline(run);
  std::ifstream file(run.file, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  store.add(run, text.str());
  const BaselineSeries series = store.series(baseline_key(run));
  const bool is_first = series.promotions.empty();
  if (is_first) {
    Promotion first = promotion_of(arguments, run.id);
    if (first.why.empty()) first.why = "the first run of this machine and these variants";
    store.promote(series, first);
  }
  std::fputs(fmt::format("saved {} in {}/{}: {}\n", run.id, store.directory(), series.key,
                         is_first ? "it is the baseline"
                                  : fmt::format("run {} of its history; the baseline is {}", series.run_ids.size(),
                                                series.baseline ? series.baseline->run_id : "none"))
                 .c_str(),
             stdout);
}

// A baseline only ever changes to a run that was shown not to be slower, or by somebody who says why.
int refuse_verdict(const BaselineArguments& arguments, const RunComparison& comparison) {
  const bool fails = comparison.verdict == GateVerdict::fail;
  if (fails && arguments.accepts_slower) return 0;
  if (!fails && comparison.verdict != GateVerdict::inconclusive) return 0;
  std::fputs(comparison_table(comparison).c_str(), stdout);
  std::fputs(fmt::format("error: {} is not promoted: against the baseline, {}, it is {}\n  fix: {}\n", arguments.run,
                         comparison.before_id, gate_verdict_text(comparison.verdict),
                         fails ? "find out why; or --accept-slower, with --why"
                               : "measure with more blocks, so that it can be said, and save that run")
                 .c_str(),
             stderr);
  return fails ? 1 : 3;
}

int promote(const BaselineArguments& arguments) {
  const BaselineStore store(arguments.directory);
  const BaselineSeries series = store.series_with(arguments.run);
  const StoredRun run = store.read(series, arguments.run);
  if (series.baseline && series.baseline->run_id != run.id) {
    if (const int code = refuse_verdict(arguments, compare_with_baseline(store, run, {})); code != 0) return code;
  }
  store.promote(series, promotion_of(arguments, run.id));
  std::fputs(fmt::format("{} is the baseline of {}\n", run.id, series.key).c_str(), stdout);
  return 0;
}

int show(const BaselineArguments& arguments) {
  const BaselineStore store(arguments.directory);
  const BaselineHistory history =
      history_of(store, store.series_with(arguments.run), arguments.runs_max, ChangePolicy{});
  std::fputs(history_text(history).c_str(), stdout);
  return became_slower(history) ? 1 : 0;
}

void remove(const BaselineArguments& arguments) {
  const BaselineStore store(arguments.directory);
  const BaselineSeries series = store.series_with(arguments.run);
  if (series.key == arguments.run) {
    throw Error(ErrorKind::config,
                fmt::format("'{}' is a key with {} runs, not a run", series.key, series.run_ids.size()),
                fmt::format("remove its runs by their ids; moe-rl-bench baseline show {} lists them", series.key));
  }
  store.remove(series, arguments.run);
  const bool was_baseline = series.baseline && series.baseline->run_id == arguments.run;
  std::fputs(fmt::format("removed {} from {}{}\n", arguments.run, series.key,
                         was_baseline ? "; it was the baseline: promote another" : "")
                 .c_str(),
             stdout);
}

}  // namespace

void add_baseline_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "baseline", "What was it before? Good runs kept by machine and variants, and where they changed");
  command->require_subcommand(1);
  const auto arguments = std::make_shared<BaselineArguments>();
  const auto add = [&](const char* name, const char* sentence) {
    CLI::App* part = command->add_subcommand(name, sentence);
    part->add_option("--baseline-dir", arguments->directory, "Where they are kept: a folder, or a branch's work tree")
        ->capture_default_str();
    return part;
  };
  const auto why = [&](CLI::App* part) {
    return part->add_option("--why", arguments->why, "Why this is the baseline from now on; kept with it");
  };

  add("list", "Each machine and set of variants, with its baseline")->callback([=] {
    std::fputs(baseline_list(BaselineStore(arguments->directory)).c_str(), stdout);
  });

  CLI::App* part = add("show",
                       "One history: its runs, and where they came to another level; exit code 1 if to a slower "
                       "one since the baseline");
  part->add_option("name", arguments->run, "A key, or the id of a run")->required();
  part->add_option("--runs", arguments->runs_max, "How many of the last runs to look at")
      ->check(CLI::Range(2, 10000))
      ->capture_default_str();
  part->callback([=, &exit_code] { exit_code = show(*arguments); });

  part = add("save", "Adds a run to its history; the first one becomes the baseline. Runs that failed are refused");
  part->add_option("run", arguments->run, "result.json, a run's folder, or a run's id")->required();
  part->add_option("--results-dir", arguments->results_dir, "Where runs are looked up by id")->capture_default_str();
  why(part);
  part->callback([=] { save(*arguments); });

  part =
      add("promote", "Makes a saved run the baseline, unless it is slower than the present one or that cannot be said");
  part->add_option("run", arguments->run, "The id of a saved run")->required();
  why(part)->required();
  part->add_flag("--accept-slower", arguments->accepts_slower, "Also when it is slower");
  part->callback([=, &exit_code] { exit_code = promote(*arguments); });

  part = add("rm", "Removes a run from its history");
  part->add_option("run", arguments->run, "The id of a saved run")->required();
  part->callback([=] { remove(*arguments); });
}

}  // namespace mrb
