#include "cli/cli.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/error.hpp"
#include "base/version.hpp"
#include "cluster/bootstrap.hpp"
#include "compute/backend.hpp"
#include "config/faults.hpp"
#include "config/fields.hpp"
#include "dispatch/dispatcher.hpp"
#include "transport/transport.hpp"

extern char** environ;

namespace mrb {

namespace {

void add_names(SettingsSources& sources, const std::string& key, const std::vector<RegistryLine>& lines) {
  for (const RegistryLine& line : lines) {
    if (line.needs.empty()) {
      sources.choices[key].push_back(line.name);
    } else {
      sources.left_out[key][line.name] = line.needs;
    }
  }
}

std::string unknown_command(const CLI::App& app, const std::string& given) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return fmt::format("error: there is no command '{}'\n  fix: did you mean '{}'? See moe-rl-bench --help\n",
                     shown(given), nearest(given, names));
}

// All ranks read the same command line and find the same fault: one says so, and no rank ends before it has.
int refuse_usage(const std::string& text) {
  std::unique_ptr<Bootstrap> bootstrap;
  if (started_by_mpirun()) bootstrap = make_bootstrap("mpi", {});
  if (rank_in_environment() == 0) std::fputs(text.c_str(), stderr);
  return static_cast<int>(ErrorKind::config);
}

// A library that libfabric may bring along (libinfinipath) has set handlers before main(), also for SIGTERM. They call exit(),
// which waits for locks that the crashed thread holds: the process would hang, and its peers wait for it.
void let_crashes_end() {
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTERM}) std::signal(signal, SIG_DFL);
}

}  // namespace

int rank_in_environment() {
  // Of Open MPI, then of others that speak PMIx or PMI.
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return std::atoi(rank);
  }
  return 0;
}

void SettingsOptions::add_to(CLI::App& command, const std::function<bool(const std::string& key)>& concerns) {
  command.add_option("config,--config", file, "YAML file; without one, all defaults hold")->type_name("FILE");
  command.add_option("--set", sets, "Set one key, as often as needed")->type_name("KEY=VALUE")->take_all();
  for (const FieldDoc& doc : field_docs()) {
    if (concerns && !concerns(doc.key)) continue;
    const std::size_t dot = doc.key.find('.');
    const std::string group = dot == std::string::npos ? "Settings" : "Settings of " + doc.key.substr(0, dot);
    command
        .add_option_function<std::string>(
            doc.flag, [this, key = doc.key](const std::string& value) { flags.emplace_back(key, value); },
            fmt::format("{} ({}) [{}]", doc.sentence, doc.accepted, doc.default_text))
        ->type_name("VALUE")
        ->group(group);
  }
}

SettingsSources SettingsOptions::sources() const {
  SettingsSources sources{.file = file, .sets = sets, .flags = flags};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    const std::size_t equals = variable.find('=');
    if (equals != std::string::npos)
      sources.environment.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
  }
  add_names(sources, "dispatcher", dispatcher_lines());
  add_names(sources, "transport", transport_lines());
  add_names(sources, "compute", compute_lines());
  return sources;
}

int run_cli(int argc, char** argv) {
  let_crashes_end();
  // Results come from rank 0 alone, whatever the command.
  if (rank_in_environment() > 0 && std::freopen("/dev/null", "w", stdout) == nullptr)
    return static_cast<int>(ErrorKind::internal);
  CLI::App app(
      "Measures whole GRPO steps of Mixture-of-Experts models: which expert dispatch kernel and which "
      "transport\n"
      "are fastest here, by how much, and how sure that is.");
  app.name("moe-rl-bench");
  app.require_subcommand(1);
  app.fallthrough(false);
  app.set_version_flag("--version", build_info().version);
  int exit_code = 0;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  add_run_command(app, arguments, exit_code);
  add_micro_command(app, arguments, exit_code);
  add_tune_command(app, arguments, exit_code);
  add_compare_command(app, exit_code);
  add_ab_command(app, exit_code);
  add_baseline_command(app, exit_code);
  add_report_command(app);
  add_config_command(app);
  add_list_command(app);
  add_plan_command(app);
  add_doctor_command(app, arguments, exit_code);
  add_manifest_command(app, exit_code);
  add_version_command(app);
  app.footer(
      "Exit codes: 0 done, 1 slower (gate), 2 bad usage or configuration, 3 inconclusive (gate), 4 wrong results, 5\n"
      "something is missing here, 6 a rank did not answer, 7 some variants failed, 8 not comparable, 70 a bug, 130 "
      "and\n"
      "143 interrupted (results so far are kept).");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    const auto commands = app.get_subcommands();
    if (commands.empty() && argc > 1 && argv[1][0] != '-') return refuse_usage(unknown_command(app, argv[1]));
    return refuse_usage(fmt::format("error: {}\n  fix: see moe-rl-bench {}--help\n", error.what(),
                                    commands.empty() ? "" : commands.front()->get_name() + " "));
  } catch (const Error& error) {
    std::fputs(fmt::format("error: {}\n", error.what()).c_str(), stderr);
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fputs(fmt::format("error: {}\n  fix: this is a bug; report it with the command that shows it\n", error.what())
                   .c_str(),
               stderr);
    return static_cast<int>(ErrorKind::internal);
  }
  return exit_code;
}

}  // namespace mrb
