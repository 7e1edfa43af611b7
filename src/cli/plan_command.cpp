#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "config/faults.hpp"
#include "planner/answers.hpp"
#include "planner/rl_steps.hpp"
#include "planner/simulated_steps.hpp"
#include "planner/validation.hpp"
#include "report/plan_json.hpp"
#include "report/plan_table.hpp"

namespace mrb {

namespace {

constexpr int kNodesMax = 512, kAnswersMax = 1 << 17, kSimulatedSteps = 40, kStalenessMax = 1000;
constexpr double kValueMax = 1e8, kCvMax = 10;  // beyond all that was ever trained

struct PlanOptions {
  std::vector<std::string> files;
  std::string data = "configs";
  std::string fit = "by-campaign";
  bool is_validation = false;

  std::string model = "qwen3-30b-a3b";
  std::vector<std::string> instances = {"p5en.48xlarge"};
  std::vector<int> nodes = {2, 4, 8};
  std::vector<std::string> schedules = {"colocated", "disaggregated", "one_step_off", "async"};
  std::vector<int> stalenesses = {1, 2};
  std::vector<std::string> dispatchers;  // none given: all that the calibration knows
  std::vector<double> micro_batches = {1, 2, 4};
  std::vector<int> tensors = SearchSpace{}.tensors, pipelines = SearchSpace{}.pipelines,
                   experts = SearchSpace{}.experts;
  Workload workload;
  bool has_reference = false;
  std::string goal = "throughput";
  int steps = 1000;
  std::string json_path;
  std::uint64_t seed = 1;
};

std::string validation_text(const Validation& validation, const std::string& fit) {
  std::string text = "# predicted against published, modelled; ";
  text += fit == "none" ? "no fit: line rates and peaks, congestion and software 0\n"
                        : "each campaign by a fit to the others\n";
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

std::string rl_text(const RlValidation& validation) {
  std::string text =
      fmt::format("#\n# whole RL steps, none of which anything was fitted to\n# {:<44} {:>10} {:>10} {:>8}\n", "step",
                  "published s", "modelled s", "error %");
  for (const RlStep& step : validation.steps) {
    text += step.predicted_s > 0 ? fmt::format("  {:<44} {:>11.1f} {:>10.1f} {:>+8.0f}\n", step.what, step.measured_s,
                                               step.predicted_s, 100 * (step.predicted_s / step.measured_s - 1))
                                 : fmt::format("  {:<44} {:>11.1f} {:>10}\n", step.what, step.measured_s, "no fit");
  }
  text += fmt::format("# mean error {:.0f}%; lengths' cv, prompts and node splits are assumed\n",
                      100 * validation.mean_error_ratio());
  text += fmt::format("# {:<44} {:>11} {:>10}\n", "speed-up of a schedule", "published", "modelled");
  for (const SpeedUp& one : validation.speed_ups) {
    text += fmt::format("  {:<44} {:>10.2f}x {:>9.2f}x\n", one.what, one.measured_ratio, one.predicted_ratio);
  }
  return text;
}

std::vector<CsvRow> published_rows(const PlanOptions& options) {
  std::vector<std::string> files = options.files;
  if (files.empty()) {
    files = {options.data + "/calibration/published_comm.csv", options.data + "/calibration/published_rl.csv"};
  }
  std::vector<CsvRow> rows;
  for (const std::string& file : files) {
    for (CsvRow& row : read_csv(file)) rows.push_back(std::move(row));
  }
  return rows;
}

Published published_of(const PlanOptions& options) {
  const std::vector<CsvRow> rows = published_rows(options);
  Published published = read_published(rows, read_instances(options.data + "/instances"));
  if (published.observations.empty()) {
    throw Error(ErrorKind::config, fmt::format("none of the {} rows can be predicted", rows.size()),
                "give rows with the columns of configs/calibration/published_comm.csv, on instances of " +
                    options.data + "/instances");
  }
  return published;
}

void run_validation(const PlanOptions& options) {
  const Validation validation =
      validate(published_of(options), options.fit == "none" ? FitChoice::none : FitChoice::by_campaign);
  std::string text = validation_text(validation, options.fit);
  if (options.fit != "none" && options.files.empty()) {
    text += rl_text(predict_rl_steps(published_rows(options), read_instances(options.data + "/instances"),
                                     calibrate(published_of(options))));
  }
  std::fputs(text.c_str(), stdout);
}

// All that is wrong with the question, at once.
void check(const PlanOptions& options, const Calibration& calibration) {
  Faults faults;
  const auto positive = [&](const char* flag, double value) {
    if (!(value > 0 && value <= kValueMax)) {
      faults.add(flag, fmt::format("is {:g}", value), fmt::format("give a number above 0, at most {:g}", kValueMax));
    }
  };
  const Workload& w = options.workload;
  positive("--prompts", w.prompts);
  positive("--answers", w.group_size);
  positive("--prompt-tokens", w.prompt_tokens);
  positive("--mean-tokens", w.lengths.mean_tokens);
  positive("--max-tokens", w.lengths.max_tokens);
  positive("--steps", options.steps);
  if (!(w.lengths.cv >= 0 && w.lengths.cv <= kCvMax)) {
    faults.add("--cv", fmt::format("is {:g}", w.lengths.cv), fmt::format("give 0 to {:g}", kCvMax));
  }
  if (!(w.imbalance >= 1 && w.imbalance <= kValueMax)) {
    faults.add("--imbalance", fmt::format("is {:g}", w.imbalance), "give 1 (even) or more");
  }
  if (!(w.lengths.group_correlation >= 0 && w.lengths.group_correlation <= 1)) {
    faults.add("--group-correlation", fmt::format("is {:g}", w.lengths.group_correlation), "give 0 to 1");
  }
  if (w.prompts > 0 && w.group_size > 0 && w.prompts > kAnswersMax / w.group_size) {
    faults.add("--prompts", fmt::format("x --answers is above {}", kAnswersMax), "give smaller steps");
  }
  for (const int nodes : options.nodes) {
    if (nodes < 1 || nodes > kNodesMax) {
      faults.add("--nodes", fmt::format("has {}", nodes), fmt::format("give 1 to {}", kNodesMax));
    }
  }
  for (const int staleness : options.stalenesses) {
    if (staleness < 0 || staleness > kStalenessMax) {
      faults.add("--staleness", fmt::format("has {}", staleness), fmt::format("give 0 to {}", kStalenessMax));
    }
  }
  for (const double micro : options.micro_batches) positive("--micro-batch", micro);
  for (const int ranks : options.tensors) positive("--tensor", ranks);
  for (const int ranks : options.pipelines) positive("--pipeline", ranks);
  for (const int ranks : options.experts) positive("--expert", ranks);
  for (const std::string& name : options.dispatchers) {
    if (std::ranges::count(calibration.backends, name) == 0) {
      faults.add("--dispatcher", fmt::format("has '{}', of which no training step is published", shown(name)),
                 fmt::format("use some of: {}", fmt::join(calibration.backends, ", ")));
    }
  }
  faults.report();
}

std::string reasons(const StepModel::Refusals& refused) {
  std::string text;
  for (const auto& [reason, count] : refused) text += fmt::format("\n  {:>8} x {}", count, reason);
  return text;
}

const Candidate& best_of(const std::vector<Candidate>& candidates, const PlanOptions& options) {
  if (options.goal == "throughput") return fastest(candidates);
  if (const Candidate* best = cheapest(candidates)) return *best;
  throw Error(ErrorKind::config,
              fmt::format("no instance of {} has a published price", fmt::join(options.instances, ", ")),
              "say --goal throughput, or write usd_per_hour and price_source into its file");
}

void write_json(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) {
    throw Error(ErrorKind::environment, fmt::format("'{}' cannot be written", shown(path)),
                "name a file in a folder that exists and may be written to");
  }
}

void run_plan(PlanOptions options) {
  const auto model = find_model_preset(options.model);
  if (!model) {
    std::vector<std::string> names;
    for (const ModelPreset& preset : model_presets()) names.push_back(preset.shape.name);
    throw Error(ErrorKind::config, fmt::format("there is no model called '{}'", shown(options.model)),
                fmt::format("use one of: {}", fmt::join(names, ", ")));
  }
  const Calibration calibration = calibrate(published_of(options));
  check(options, calibration);
  options.workload.model = *model;
  options.workload.forward_passes = options.has_reference ? 2 : 1;
  SearchSpace space{.nodes = options.nodes,
                    .stalenesses = options.stalenesses,
                    .backends = options.dispatchers.empty() ? calibration.backends : options.dispatchers,
                    .micro_sequences = options.micro_batches,
                    .tensors = options.tensors,
                    .pipelines = options.pipelines,
                    .experts = options.experts};
  const auto instances = read_instances(options.data + "/instances");
  for (const std::string& name : options.instances) space.instances.push_back(find_instance(instances, name));
  for (const std::string& name : options.schedules) space.schedules.push_back(find_schedule(name));

  const StepModel step_model(options.workload, calibration);
  PlanReport report;
  report.workload = options.workload;
  report.found = search(space, step_model);
  report.calibration = calibration;
  report.step_error_ratio = predict_rl_steps(published_rows(options), instances, calibration).mean_error_ratio();
  report.goal = options.goal;
  report.steps = options.steps;
  if (report.found.candidates.empty()) {
    throw Error(ErrorKind::config,
                fmt::format("{} fits nowhere in the {} points that were tried:{}", options.model, report.found.priced,
                            reasons(report.found.refused)),
                "offer more nodes or instances with more memory; without a second node only `colocated` is possible");
  }
  report.best = best_of(report.found.candidates, options);
  report.simulated = simulate_steps(report.best, options.workload, kSimulatedSteps, options.seed);
  report.pareto = pareto(report.found.candidates);
  report.sensitivities = sensitivities(report.best, options.workload, calibration);
  report.marginals = marginals(report.best, space, step_model);
  report.winners = winners(space, step_model);
  std::fputs(plan_table(report).c_str(), stdout);
  if (!options.json_path.empty()) write_json(options.json_path, plan_json(report));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* plan = app.add_subcommand(
      "plan", "What would so many nodes of this type give, split how, at what price? (modelled; no cluster needed)");
  const auto options = std::make_shared<PlanOptions>();
  const auto list = [&](const char* flag, auto& values, const char* sentence) {
    plan->add_option(flag, values, sentence)->delimiter(',')->capture_default_str();
  };
  plan->add_option("--model", options->model, "Preset, as in `moe-rl-bench list`")->capture_default_str();
  list("--instance", options->instances, "Instance types, as in configs/instances");
  list("--nodes", options->nodes, "Numbers of nodes");
  list("--schedule", options->schedules, "Which side waits for which");
  list("--staleness", options->stalenesses, "async: steps that an answer may be late");
  list("--dispatcher", options->dispatchers, "Published backends; without it, all of which training steps are known");
  list("--micro-batch", options->micro_batches, "Sequences in a micro-batch of training");
  list("--tensor", options->tensors, "Tensor ranks of training, within a node");
  list("--pipeline", options->pipelines, "Pipeline stages of training");
  list("--expert", options->experts, "Expert ranks of training");
  Workload& workload = options->workload;
  const auto number = [&](const char* flag, auto& value, const char* sentence) {
    plan->add_option(flag, value, sentence)->capture_default_str();
  };
  number("--prompts", workload.prompts, "Prompts of a step");
  number("--answers", workload.group_size, "Answers to each prompt");
  number("--prompt-tokens", workload.prompt_tokens, "Tokens of a prompt");
  number("--mean-tokens", workload.lengths.mean_tokens, "Mean tokens of an answer, before the cut");
  number("--cv", workload.lengths.cv, "Standard deviation of answer lengths over their mean");
  number("--max-tokens", workload.lengths.max_tokens, "Answers are cut here");
  number("--group-correlation", workload.lengths.group_correlation,
         "Of log lengths of answers to one prompt (simulated steps only)");
  number("--imbalance", workload.imbalance, "Rows of the busiest expert rank over the mean");
  plan->add_flag("--reference", options->has_reference, "Log-probabilities of a reference policy too");
  plan->add_option("--goal", options->goal, "What `best` means")
      ->check(CLI::IsMember({"throughput", "price"}))
      ->capture_default_str();
  number("--steps", options->steps, "Steps of the whole training");
  number("--seed", options->seed, "Of the lengths that are drawn");
  plan->add_option("--json", options->json_path, "Write the report here, too")->type_name("FILE");
  plan->add_flag("--validate", options->is_validation, "Predict published figures and print the error by operation");
  plan->add_option("files", options->files,
                   "Published figures to learn from, or to predict; without one, the project's")
      ->type_name("FILE");
  plan->add_option("--fit", options->fit,
                   "--validate: each campaign by a fit to the others (by-campaign), or physics alone (none)")
      ->check(CLI::IsMember({"by-campaign", "none"}))
      ->capture_default_str();
  plan->add_option("--data", options->data, "Folder that holds instances/ and calibration/")->capture_default_str();
  plan->callback([options] { options->is_validation ? run_validation(*options) : run_plan(*options); });
}

}  // namespace mrb
