#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "bench/dispatcher_options.hpp"
#include "cli/cli.hpp"
#include "cli/rank_main.hpp"
#include "cluster/agree.hpp"
#include "doctor/diagnosis.hpp"
#include "doctor/network.hpp"
#include "doctor/read_facts.hpp"
#include "report/diagnosis_report.hpp"
#include "report/network_report.hpp"

namespace mrb {

namespace {

struct DoctorOptions {
  SettingsOptions settings;
  std::string root;
  std::string format = "text";
  bool is_network = false;
};

// What the configuration asks for; a default asks for nothing.
void add_request(Facts& facts, const Settings& settings) {
  const Setting& transport = settings.at("transport");
  if (transport.origin == "default") return;
  const Config config = expand(settings).front().config;
  facts.transport = config.transport.name;
  if (config.transport.name == "libfabric") facts.provider = config.transport.provider;
}

class Doctor {
 public:
  Doctor(Bootstrap& bootstrap, const DoctorOptions& options, const Settings& settings)
      : bootstrap_(bootstrap), options_(options), settings_(settings) {}

  int examine(Facts mine) {
    add_request(mine, settings_);
    const std::vector<Facts> facts = gather_facts(bootstrap_, std::move(mine));
    diagnosis_ = diagnose(facts);
    // What is found so far is said before anything can hang.
    if (options_.is_network && options_.format == "text") print(diagnosis_text(diagnosis_));
    if (options_.is_network) measure(facts);
    if (options_.format == "json") print(json());
    if (options_.format == "text") print(options_.is_network ? network_part() : diagnosis_text(diagnosis_));
    return diagnosis_.is_fit() ? 0 : static_cast<int>(ErrorKind::environment);
  }

 private:
  void measure(const std::vector<Facts>& facts) {
    constexpr double kPairTimeoutMax_s = 10;
    const Config config = expand(settings_).front().config;
    network_ = measure_network(bootstrap_, facts,
                               {.transport = config.transport.name,
                                .transport_options = transport_options(config),
                                .pair_timeout_s = std::min(kPairTimeoutMax_s, config.transport.timeout_s)});
    of_network_.ranks = diagnosis_.ranks;
    of_network_.findings = judge_network(network_);
    diagnosis_.findings.insert(diagnosis_.findings.end(), of_network_.findings.begin(), of_network_.findings.end());
  }

  std::string network_part() const {
    std::string text = network_text(network_);
    for (const Finding& finding : of_network_.findings) text += finding_text(finding);
    return text + verdict_of(diagnosis_) + "\n";
  }

  std::string json() const {
    constexpr int kIndent = 1;
    auto json = diagnosis_json(diagnosis_);
    if (options_.is_network) json["network"] = network_json(network_);
    return json.dump(kIndent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }

  void print(const std::string& text) const {
    if (bootstrap_.rank() == 0) std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  Bootstrap& bootstrap_;
  const DoctorOptions& options_;
  const Settings& settings_;
  Diagnosis diagnosis_, of_network_;
  NetworkRecord network_;
};

int run_doctor_rank(const std::string& bootstrap_name, const DoctorOptions& options) {
  // Before MPI starts: what a rank has is what its launcher gave it.
  const bool is_alone = bootstrap_name == "solo";
  const Facts facts = read_facts(options.root, is_alone ? TryHosts::yes : TryHosts::no);
  Settings settings;
  const RankMain main{
      .prepare =
          [&](Bootstrap& bootstrap) {
            settings = load_on_all_ranks(bootstrap, options.settings, meet(bootstrap, read_machine()), false);
          },
      .execute = [&](Bootstrap& bootstrap) { return Doctor(bootstrap, options, settings).examine(facts); }};
  return run_as_rank(bootstrap_name, options.settings, main);
}

int run(const DoctorOptions& options, const std::vector<std::string>& arguments) {
  if (started_by_mpirun()) return run_doctor_rank("mpi", options);
  SettingsSources sources = options.settings.sources();
  sources.for_run = false;
  const Settings settings = load_settings(sources);  // faults are shown here, once, before any rank starts
  // Without --ranks one process looks at this pod alone; that needs no MPI, which may be what is wrong.
  if (settings.at("ranks").origin == "default" || !options.root.empty()) return run_doctor_rank("solo", options);
  return run_with_ranks(settings, arguments, [&](const std::string&) { return run_doctor_rank("solo", options); });
}

// Settings want the experts of a model to divide over the ranks, and doctor asks about no model: without a file of the
// user's, any number of ranks is as good as another.
void fit_model_to_ranks(SettingsOptions& settings) {
  constexpr int kExpertsMin = 8;
  int ranks = 1;
  if (const char* size = std::getenv("OMPI_COMM_WORLD_SIZE")) ranks = std::atoi(size);
  for (const auto& [key, value] : settings.flags) {
    if (key == "ranks") ranks = std::atoi(value.c_str());
  }
  if (!settings.file.empty() || ranks < 1) return;
  settings.flags.emplace_back("model.experts", std::to_string(ranks < kExpertsMin ? ranks * kExpertsMin : ranks));
}

bool concerns_doctor(const std::string& key) {
  return key == "ranks" || key == "transport" || key.starts_with("transport.");
}

}  // namespace

void add_doctor_command(CLI::App& app, const std::vector<std::string>& arguments, int& exit_code) {
  CLI::App* command = app.add_subcommand("doctor", "Is this node, pod or cluster fit to be measured at all?");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_option("--root", options->root, "Read /proc, /sys, /dev and /etc of another machine, from this folder")
      ->check(CLI::ExistingDirectory);
  command->add_option("--format", options->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->add_flag("--network", options->is_network,
                    "Also measure every pair of nodes: latency, bandwidth, the largest datagram that passes");
  options->settings.add_to(*command, concerns_doctor);
  command->callback([=, &exit_code] {
    fit_model_to_ranks(options->settings);
    exit_code = run(*options, arguments);
  });
}

}  // namespace mrb
