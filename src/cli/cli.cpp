#include "cli/cli.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "base/error.hpp"
#include "base/version.hpp"
#include "compute/backend.hpp"
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

}  // namespace

void SettingsOptions::add_to(CLI::App& command) {
  command.add_option("config,--config", file, "YAML file; without one, all defaults hold")->type_name("FILE");
  command.add_option("--set", sets, "Set one key, as often as needed")->type_name("KEY=VALUE")->take_all();
  for (const FieldDoc& doc : field_docs()) {
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
    if (equals != std::string::npos) sources.environment.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
  }
  add_names(sources, "dispatcher", dispatcher_lines());
  add_names(sources, "transport", transport_lines());
  add_names(sources, "compute", compute_lines());
  return sources;
}

int run_cli(int argc, char** argv) {
  CLI::App app("Measures whole GRPO steps of Mixture-of-Experts models: which expert dispatch kernel and which transport\n"
               "are fastest here, by how much, and how sure that is.");
  app.name("moe-rl-bench");
  app.require_subcommand(1);
  app.fallthrough(false);
  app.set_version_flag("--version", build_info().version);
  int exit_code = 0;
  add_run_command(app, std::vector<std::string>(argv + 1, argv + argc), exit_code);
  add_config_command(app);
  add_list_command(app);
  add_version_command(app);
  app.footer("Exit codes: 0 done, 2 bad usage or configuration, 4 wrong results, 5 something is missing here, 6 a rank did\n"
             "not answer, 7 some variants failed, 70 a bug, 130 and 143 interrupted (results so far are kept).");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fputs(fmt::format("error: {}\n  fix: see moe-rl-bench {}--help\n", error.what(),
                           app.get_subcommands().empty() ? "" : app.get_subcommands()[0]->get_name() + " ")
                   .c_str(),
               stderr);
    return static_cast<int>(ErrorKind::config);
  } catch (const Error& error) {
    std::fputs(fmt::format("error: {}\n", error.what()).c_str(), stderr);
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fputs(fmt::format("error: {}\n  fix: this is a bug; report it with the command that shows it\n", error.what()).c_str(),
               stderr);
    return static_cast<int>(ErrorKind::internal);
  }
  return exit_code;
}

}  // namespace mrb
