#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "report/result_schema.hpp"

namespace mrb {

namespace {

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
}

}  // namespace

void add_config_command(CLI::App& app) {
  CLI::App* config =
      app.add_subcommand("config", "What is the full configuration, and where does each value come from?");
  config->require_subcommand(1);

  config->add_subcommand("init", "Print a complete configuration with a comment on every key")->callback([] {
    print(starter_yaml());
  });

  const auto options = std::make_shared<SettingsOptions>();
  CLI::App* show = config->add_subcommand("show", "Print every value and where it comes from");
  options->add_to(*show);
  show->callback([options] {
    SettingsSources sources = options->sources();
    sources.purpose = Purpose::show;
    print(settings_yaml(load_settings(sources), Origins::shown));
  });

  CLI::App* validate = config->add_subcommand("validate", "Check a configuration; all faults in one message");
  const auto checked = std::make_shared<SettingsOptions>();
  checked->add_to(*validate);
  validate->callback([checked] {
    if (checked->file.empty())
      throw Error(ErrorKind::config, "there is no file to validate", "moe-rl-bench config validate my.yaml");
    const auto points = expand(load_settings(checked->sources()));
    print(fmt::format("{}: valid, {} variant{}\n", checked->file, points.size(), points.size() == 1 ? "" : "s"));
  });

  CLI::App* schema = config->add_subcommand("schema", "Print the JSON Schema of the file");
  const auto of_result = std::make_shared<bool>(false);
  schema->add_flag("--result", *of_result, "That of result.json instead");
  schema->callback([of_result] { print(*of_result ? result_json_schema() : config_json_schema()); });
}

}  // namespace mrb
