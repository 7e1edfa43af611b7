#include <cstdio>
#include <functional>
#include <map>
#include <memory>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "report/page.hpp"
#include "report/results_folder.hpp"
#include "report/run_comparison.hpp"
#include "report/run_exports.hpp"
#include "report/stored_run.hpp"

namespace mrb {

namespace {

struct ReportArguments {
  std::string format, run, against, output;
  std::string results_dir = "results";
};

using RunWriter = std::function<std::string(const StoredRun&)>;

const std::map<std::string, RunWriter>& run_writers() {
  static const std::map<std::string, RunWriter> by_name = {{"html", [](const StoredRun& run) { return run_page(run); }},
                                                           {"md", run_markdown},
                                                           {"csv", run_csv},
                                                           {"junit", run_junit},
                                                           {"gbench", run_google_benchmark}};
  return by_name;
}

void report(const ReportArguments& arguments) {
  const StoredRun run = read_stored_run(arguments.run, arguments.results_dir);
  std::string text;
  if (arguments.against.empty()) {
    text = run_writers().at(arguments.format)(run);
  } else {
    const RunComparison comparison = compare_runs(read_stored_run(arguments.against, arguments.results_dir), run, {});
    text = run_page(run, &comparison);
  }
  if (arguments.output.empty() || arguments.output == "-") {
    std::fputs(text.c_str(), stdout);
  } else {
    replace_file(arguments.output, text);
  }
}

}  // namespace

void add_report_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("report", "Show a stored run: as a page to look at, or as others read it");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("format", arguments->format, "html, md (for a pull request), csv (every step), junit or gbench")
      ->required()
      ->check(CLI::IsMember(run_writers()));
  command->add_option("run", arguments->run, "result.json, a run's folder, or a run's id")->required();
  command->add_option("--against", arguments->against, "html: a run from before, whose gate verdicts come first");
  command->add_option("-o,--output", arguments->output, "File to write; - or nothing: stdout");
  command->add_option("--results-dir", arguments->results_dir, "Where runs are looked up by id")->capture_default_str();
  command->callback([arguments] {
    if (!arguments->against.empty() && arguments->format != "html")
      throw Error(ErrorKind::config, "--against is for html alone", "compare --format md|junit|json writes verdicts");
    report(*arguments);
  });
}

}  // namespace mrb
