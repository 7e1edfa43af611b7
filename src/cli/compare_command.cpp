#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "cli/gate_options.hpp"
#include "report/baseline_history.hpp"
#include "report/stored_run.hpp"

namespace mrb {

namespace {

struct CompareArguments {
  std::string before, after;
  std::string results_dir = "results";
  std::string baseline_dir = "baselines";
  GateOptions gate;
};

RunComparison compare_with_what_is_given(const CompareArguments& arguments) {
  const StoredRun first = read_stored_run(arguments.before, arguments.results_dir);
  const ComparisonOptions& options = arguments.gate.options;
  if (arguments.after.empty()) return compare_with_baseline(BaselineStore(arguments.baseline_dir), first, options);
  return compare_runs(first, read_stored_run(arguments.after, arguments.results_dir), options);
}

int compare(const CompareArguments& arguments) {
  const RunComparison comparison = compare_with_what_is_given(arguments);
  std::fputs(arguments.gate.text_of(comparison).c_str(), stdout);
  return arguments.gate.exit_code_of(comparison);
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("compare", "Did it become slower? Two stored results, and an exit code for CI");
  const auto arguments = std::make_shared<CompareArguments>();
  command->add_option("before", arguments->before, "result.json, a run's folder, or a run's id")->required();
  command->add_option("after", arguments->after,
                      "The same of the later run; without it, the first is compared with its baseline");
  command->add_option("--results-dir", arguments->results_dir, "Where runs are looked up by id")->capture_default_str();
  command->add_option("--baseline-dir", arguments->baseline_dir, "Where baselines are kept (moe-rl-bench baseline)")
      ->capture_default_str();
  command->add_flag("--allow-mismatch", arguments->gate.options.allow_mismatch,
                    "Compare what both have although machines or variants differ");
  command
      ->add_option("--session-sd-ratio", arguments->gate.options.policy.session_sd_ratio,
                   "How much sessions differ from each other here (0.01: 1%); widens the interval")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  arguments->gate.add_to(*command);
  command->callback([=, &exit_code] { exit_code = compare(*arguments); });
}

}  // namespace mrb
