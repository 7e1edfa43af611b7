#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "config/faults.hpp"
#include "config/text_file.hpp"
#include "manifest/check.hpp"
#include "manifest/render.hpp"

namespace mrb {

namespace {

struct CheckOptions {
  std::vector<std::string> files;
  std::string format = "text";
  bool is_strict = false;
};

// What a pipe brings, as much as a file may hold.
std::string read_standard_input() {
  constexpr std::size_t kBytesMax = 256 << 10;
  std::string text(kBytesMax + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::cin.gcount()));
  if (text.size() > kBytesMax) {
    throw Error(ErrorKind::config, "the standard input has more than 256 KiB", "give a manifest: none needs that much");
  }
  return text;
}

struct RenderOptions {
  SettingsOptions settings;
  JobRequest request;
  std::string command = "run";
  std::string limit = "60m";
  std::string efa = "device-plugin";
  std::string output;
  bool launcher_works = false;
};

// "90s", "30m", "2h", or seconds.
int seconds_of(const std::string& text) {
  static const std::map<std::string, int> units = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto unit = units.find(std::string(end, text.data() + text.size()));
  if (error != std::errc() || unit == units.end() || value < 0 || value > 10'000'000) {
    throw Error(ErrorKind::config, fmt::format("--limit is '{}'", shown(text)), "give a time: 90s, 30m, 2h");
  }
  return value * unit->second;
}

// Whether the command measures what a configuration says, and so takes one.
bool takes_config(const std::string& command) {
  return command == "run" || command == "tune" || command == "micro" || command == "ab";
}

// As the ranks will read it: with their number, and checked with it. Names that only this build lacks are good.
std::string config_of(const RenderOptions& options, int ranks) {
  SettingsSources sources = options.settings.sources();
  for (auto& [key, names] : sources.left_out) {
    for (const auto& [name, feature] : names) sources.choices[key].push_back(name);
  }
  sources.left_out.clear();
  sources.environment.clear();  // what is set here is not what is set there
  sources.world_size = ranks;
  return settings_yaml(load_settings(sources), Origins::hidden);
}

void render(RenderOptions options) {
  JobRequest& request = options.request;
  std::istringstream words(options.command);
  request.command.assign(std::istream_iterator<std::string>(words), {});
  request.limit_s = seconds_of(options.limit);
  request.efa = options.efa == "dra" ? EfaBy::dra : EfaBy::device_plugin;
  request.launcher = options.launcher_works ? LauncherRole::works : LauncherRole::apart;
  render_job(request);  // what is wrong with the job comes before what is wrong with the configuration
  if (takes_config(request.command.front())) {
    request.config_yaml = config_of(options, request.nodes * ranks_per_node(request));
  }
  const std::string text = render_job(request);
  if (options.output.empty()) {
    std::fputs(text.c_str(), stdout);
  } else if (!(std::ofstream(options.output) << text << std::flush)) {
    throw Error(ErrorKind::environment, fmt::format("'{}' cannot be written", shown(options.output)),
                "check the folder and its permissions");
  }
}

void add_render(CLI::App& manifest) {
  CLI::App* command =
      manifest.add_subcommand("render", "Print the MPIJob that runs a configuration, right the first time");
  const auto options = std::make_shared<RenderOptions>();
  JobRequest& request = options->request;
  options->settings.add_to(*command, [](const std::string& key) { return key == "seed"; });
  const std::string group = "Job";
  command->add_option("--instance", request.node_type, "Type of the nodes, as in configs/instances")
      ->required()
      ->group(group);
  command->add_option("--image", request.image, "That scripts/eks/image builds")->required()->group(group);
  command->add_option("--nodes", request.nodes, "How many")->capture_default_str()->group(group);
  command
      ->add_option("--ranks-per-node", request.ranks_per_node,
                   "0: one for each GPU, or each EFA device where there is none")
      ->capture_default_str()
      ->group(group);
  command->add_option("--name", request.name, "Of the job; pods are named after it")
      ->capture_default_str()
      ->group(group);
  command->add_option("--namespace", request.name_space, "Where it runs")->capture_default_str()->group(group);
  command
      ->add_option("--command", options->command,
                   "What the ranks run: run, \"tune --budget 30m\", \"micro pair\", \"doctor --network\"")
      ->capture_default_str()
      ->group(group);
  command
      ->add_option("--limit", options->limit,
                   "mpirun ends after this (90s, 30m, 2h), and what there is is brought home")
      ->capture_default_str()
      ->group(group);
  command
      ->add_option("--hugepages", request.huge_pages,
                   "hugepages-2Mi of a pod (5120Mi); without, libfabric does without")
      ->group(group);
  command->add_flag("--launcher-works", options->launcher_works, "The launcher's pod is the first node of ranks")
      ->group(group);
  command->add_option("--efa", options->efa, "What gives pods their EFA devices")
      ->check(CLI::IsMember({"device-plugin", "dra"}))
      ->capture_default_str()
      ->group(group);
  command->add_option("--queue", request.queue, "LocalQueue of Kueue")->group(group);
  command->add_option("--topology", request.topology, "With a queue: node label of the level that must hold all pods")
      ->group(group);
  command->add_option("--capacity-block", request.capacity_block, "Only nodes of this reservation (cr-...)")
      ->group(group);
  command->add_option("-o,--output", options->output, "Write it here instead")->type_name("FILE")->group(group);
  command->callback([options] { render(*options); });
}

int check(const CheckOptions& options) {
  bool is_right = true;
  for (const std::string& file : options.files) {
    const ManifestCheck found = file == "-" ? check_manifest("standard input", read_standard_input())
                                            : check_manifest(file, read_text_file(file));
    std::fputs((options.format == "json" ? check_json(found) : check_text(found)).c_str(), stdout);
    is_right = is_right && found.count(ManifestSeverity::error) == 0 &&
               !(options.is_strict && found.count(ManifestSeverity::warning) > 0);
  }
  return is_right ? 0 : static_cast<int>(ErrorKind::config);
}

}  // namespace

void add_manifest_command(CLI::App& app, int& exit_code) {
  CLI::App* manifest =
      app.add_subcommand("manifest", "Which MPIJob runs this configuration, and is this MPIJob right?");
  manifest->require_subcommand(1);
  add_render(*manifest);

  const auto options = std::make_shared<CheckOptions>();
  CLI::App* command = manifest->add_subcommand(
      "check",
      "Find what is wrong with MPIJobs: with the path, why it matters and the fix. Exit code 2 when one has errors");
  command->add_option("files", options->files, "YAML with any number of documents; - is the standard input")
      ->required()
      ->type_name("FILE");
  command->add_option("--format", options->format, "Of the findings")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->add_flag("--strict", options->is_strict, "Warnings count as errors");
  command->callback([=, &exit_code] { exit_code = check(*options); });
}

}  // namespace mrb
