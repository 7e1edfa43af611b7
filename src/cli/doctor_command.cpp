#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "cli/rank_main.hpp"
#include "cluster/agree.hpp"
#include "doctor/diagnosis.hpp"
#include "doctor/read_facts.hpp"
#include "report/diagnosis_report.hpp"

namespace mrb {

namespace {

struct DoctorOptions {
  SettingsOptions settings;
  std::string root;
  std::string format = "text";
};

// What the configuration asks for; a default asks for nothing.
void add_request(Facts& facts, const Settings& settings) {
  const Setting& transport = settings.at("transport");
  if (transport.origin == "default") return;
  const Config config = expand(settings).front().config;
  facts.transport = config.transport.name;
  if (config.transport.name == "libfabric") facts.provider = config.transport.provider;
}

std::string shown(const Diagnosis& diagnosis, const std::string& format) {
  constexpr int kIndent = 1;
  if (format == "text") return diagnosis_text(diagnosis);
  return diagnosis_json(diagnosis).dump(kIndent, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int examine(Bootstrap& bootstrap, const DoctorOptions& options, Facts facts, const Settings& settings) {
  add_request(facts, settings);
  const Diagnosis diagnosis = diagnose(gather_facts(bootstrap, std::move(facts)));
  if (bootstrap.rank() == 0) std::fputs(shown(diagnosis, options.format).c_str(), stdout);
  return diagnosis.is_fit() ? 0 : static_cast<int>(ErrorKind::environment);
}

int run_doctor_rank(const std::string& bootstrap_name, const DoctorOptions& options) {
  // Before MPI starts: what a rank has is what its launcher gave it.
  const bool is_alone = bootstrap_name == "solo";
  const Facts facts = read_facts(options.root, is_alone ? TryHosts::yes : TryHosts::no);
  Settings settings;
  const RankMain main{.prepare =
                          [&](Bootstrap& bootstrap) {
                            settings =
                                load_on_all_ranks(bootstrap, options.settings, meet(bootstrap, read_machine()), false);
                          },
                      .execute = [&](Bootstrap& bootstrap) { return examine(bootstrap, options, facts, settings); }};
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
  options->settings.add_to(*command, concerns_doctor);
  command->callback([=, &exit_code] { exit_code = run(*options, arguments); });
}

}  // namespace mrb
