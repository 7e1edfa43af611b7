#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "planner/validation.hpp"

namespace mrb {

namespace {

struct PlanOptions {
  std::vector<std::string> files;
  std::string data = "configs";
  std::string fit = "by-campaign";
  bool is_validation = false;
};

std::string validation_text(const Validation& validation, const std::string& fit) {
  std::string text = "# predicted against published, modelled; ";
  text +=
      fit == "none" ? "no fit: line rates and peaks, congestion and software 0\n" : "each campaign by a fit to the others\n";
  text += fmt::format("# {:<12} {:<10} {:>5} {:>8} {:>8} {:>9}  {}\n", "operation", "regime", "rows", "mean %",
                      "median %", "worst %", "worst row");
  for (const ValidationLine& line : validation.lines) {
    text += fmt::format("  {:<12} {:<10} {:>5} {:>8.1f} {:>8.1f} {:>9.1f}  {}\n", line.operation, line.regime,
                        line.rows, 100 * line.mean_error_ratio, 100 * line.median_error_ratio,
                        100 * line.worst_error_ratio, line.worst_id);
  }
  if (validation.pairs > 0) {
    text += fmt::format(
        "# backends on the same training step, 6% apart or more: {} of {} pairs in the right order ({:.0f}%)\n",
        validation.pairs_in_order, validation.pairs, 100.0 * validation.pairs_in_order / validation.pairs);
  }
  return text + fmt::format("# rows without an operation, an instance or a figure of their own here: {}\n",
                            validation.left_out);
}

void run_validation(const PlanOptions& options) {
  const auto instances = read_instances(options.data + "/instances");
  std::vector<std::string> files = options.files;
  if (files.empty()) files.push_back(options.data + "/calibration/published_comm.csv");
  std::vector<CsvRow> rows;
  for (const std::string& file : files) {
    for (CsvRow& row : read_csv(file)) rows.push_back(std::move(row));
  }
  const Published published = read_published(rows, instances);
  if (published.observations.empty()) {
    throw Error(ErrorKind::config, fmt::format("none of the {} rows can be predicted", rows.size()),
                "give rows with the columns of configs/calibration/published_comm.csv, on instances of " +
                    options.data + "/instances");
  }
  const Validation validation = validate(published, options.fit == "none" ? FitChoice::none : FitChoice::by_campaign);
  std::fputs(validation_text(validation, options.fit).c_str(), stdout);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* plan = app.add_subcommand("plan", "How well does the cost model predict what others have measured?");
  const auto options = std::make_shared<PlanOptions>();
  plan->add_flag("--validate", options->is_validation, "Predict published figures and print the error by operation")
      ->required();
  plan->add_option("files", options->files, "Tables to predict; without one, the project's own")->type_name("FILE");
  plan->add_option("--fit", options->fit, "by-campaign: each campaign by a fit to the others; none: physics alone")
      ->check(CLI::IsMember({"by-campaign", "none"}))
      ->capture_default_str();
  plan->add_option("--data", options->data, "Folder that holds instances/ and calibration/")->capture_default_str();
  plan->callback([options] { run_validation(*options); });
}

}  // namespace mrb
