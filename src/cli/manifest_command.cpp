#include <cstdio>
#include <iostream>
#include <memory>

#include "base/error.hpp"
#include "cli/cli.hpp"
#include "config/text_file.hpp"
#include "manifest/check.hpp"

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

int check(const CheckOptions& options) {
  bool is_right = true;
  for (const std::string& file : options.files) {
    const ManifestCheck found = file == "-" ? check_manifest("standard input", read_standard_input())
                                            : check_manifest(file, read_text_file(file));
    std::fputs((options.format == "json" ? check_json(found) : check_text(found)).c_str(), stdout);
    is_right =
        is_right && found.count(Severity::error) == 0 && !(options.is_strict && found.count(Severity::warning) > 0);
  }
  return is_right ? 0 : static_cast<int>(ErrorKind::config);
}

}  // namespace

void add_manifest_command(CLI::App& app, int& exit_code) {
  CLI::App* manifest =
      app.add_subcommand("manifest", "Which MPIJob runs this configuration, and is this MPIJob right?");
  manifest->require_subcommand(1);

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
