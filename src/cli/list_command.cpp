#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>

#include "cli/cli.hpp"
#include "cluster/bootstrap.hpp"
#include "cluster/machine.hpp"
#include "compute/backend.hpp"
#include "dispatch/dispatcher.hpp"
#include "transport/transport.hpp"

namespace mrb {

namespace {

std::string row(const std::string& name, const std::string& needs) {
  if (needs.empty()) return fmt::format("  {:<18} on\n", name);
  return fmt::format("  {:<18} off  this build lacks {}: configure with -DMRB_WITH_{}=ON\n", name, needs, needs);
}

std::string rows(const std::vector<RegistryLine>& lines) {
  std::string text;
  for (const RegistryLine& line : lines) text += row(line.name, line.needs);
  return text;
}

std::string dispatchers() {
  std::string text;
  for (const RegistryLine& line : dispatcher_lines()) {
    if (!line.needs.empty()) {
      text += row(line.name, line.needs);
      continue;
    }
    const DispatcherOptions any{.hidden = 1, .placement = {.expert_count = 1}};
    const DispatcherCapabilities capabilities = dispatcher_capabilities(line.name, any);
    text += fmt::format("  {:<18} on   {}\n  {:<18}      as in {}\n", line.name, capabilities.pattern, "",
                        capabilities.published);
  }
  return text +
         "  All are implementations of our own: of the wire pattern, not copies of the kernels named beside it.\n";
}

std::string models() {
  std::string text;
  for (const ModelPreset& preset : model_presets()) {
    const ParameterCount count = count_parameters(preset.shape);
    const bool runs = preset.shape.attention == "gqa";
    text += fmt::format("  {:<18} {:>10.2f} M weights, {:>9.2f} M active, {} experts, top {}, {} attention{}\n",
                        preset.shape.name, static_cast<double>(count.total) / 1e6,
                        static_cast<double>(count.active) / 1e6, preset.shape.experts, preset.shape.top_k,
                        preset.shape.attention, runs ? "" : " (shape only: run has grouped-query attention)");
  }
  return text;
}

std::string libraries() {
  std::string text;
  for (const LibraryLine& line : library_lines()) {
    text += line.needs.empty()
                ? fmt::format("  {:<18} built with {}, loaded {}\n", line.name, line.built_with, line.loaded)
                : row(line.name, line.needs);
  }
  return text;
}

const std::vector<std::pair<std::string, std::function<std::string()>>>& families() {
  static const std::vector<std::pair<std::string, std::function<std::string()>>> all = {
      {"dispatchers", dispatchers},
      {"transports", [] { return rows(transport_lines()); }},
      {"compute", [] { return rows(compute_lines()); }},
      {"bootstraps", [] { return rows(bootstrap_lines()); }},
      {"models", models},
      {"libraries", libraries}};
  return all;
}

}  // namespace

void add_list_command(CLI::App& app) {
  CLI::App* list = app.add_subcommand("list", "What does this binary contain, and what was left out of it and why?");
  const auto wanted = std::make_shared<std::string>();
  std::vector<std::string> names;
  for (const auto& [name, text] : families()) names.push_back(name);
  list->add_option("family", *wanted, "Only this one")->check(CLI::IsMember(names));
  list->callback([wanted] {
    for (const auto& [name, text] : families()) {
      if (wanted->empty() || *wanted == name) std::fputs((name + "\n" + text()).c_str(), stdout);
    }
  });
}

}  // namespace mrb
