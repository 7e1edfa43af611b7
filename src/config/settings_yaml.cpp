#include <fmt/format.h>

#include <algorithm>

#include "config/fields.hpp"
#include "config/settings.hpp"

namespace mrb {

namespace {

// A value that YAML would take for something else, or as a list of ours, is put in quotes.
std::string quoted(const std::string& value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' || c == '+' || c == '/';
  });
  if (plain) return value;
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + "\"";
}

std::string list_text(const std::vector<std::string>& values) {
  if (values.size() == 1) return quoted(values[0]);
  std::string text;
  for (const auto& value : values) text += (text.empty() ? "[" : ", ") + quoted(value);
  return text + "]";
}

struct Line {
  const Field* field = nullptr;
  std::string value;
  std::string comment;
};

// Sections in the order of the table; a section with a name field has it as `name`.
std::string yaml_of(const std::vector<Line>& lines) {
  std::string text, section;
  for (const Line& line : lines) {
    const bool in_section =
        line.field->key.find('.') != std::string::npos || line.field->names_section;
    if (in_section && line.field->section() != section) text += line.field->section() + ":\n";
    section = in_section ? line.field->section() : "";
    const std::string name =
        line.field->key.find('.') == std::string::npos ? "name" : line.field->key.substr(line.field->key.find('.') + 1);
    std::string row = in_section ? fmt::format("  {}: {}", name, line.value) : fmt::format("{}: {}", line.field->key, line.value);
    if (!line.comment.empty()) row = fmt::format("{:<36} # {}", row, line.comment);
    text += row + "\n";
  }
  return text;
}

}  // namespace

std::string settings_yaml(const Settings& settings, Origins origins) {
  std::vector<Line> lines;
  for (std::size_t i = 0; i < settings.fields.size(); ++i) {
    const Setting& setting = settings.fields[i];
    if (setting.values.empty() || (setting.key == "transport.provider" && setting.origin == "default")) continue;
    lines.push_back({&fields()[i], list_text(setting.values), origins == Origins::shown ? setting.origin : ""});
  }
  std::string text = yaml_of(lines);
  if (!settings.baseline.empty()) {
    text += "baseline:\n";
    for (const auto& [key, value] : settings.baseline) text += fmt::format("  {}: {}\n", key, quoted(value));
  }
  return text;
}

std::string config_yaml(const Config& config, const std::vector<std::string>& comment) {
  std::string text;
  for (const auto& line : comment) text += "# " + line + "\n";
  Config preset;
  preset.model = find_model_preset(config.model.name).value_or(ModelShape{});
  std::vector<Line> lines;
  for (const Field& field : fields()) {
    if (field.applies && !field.applies(config)) continue;
    if (field.is_model_override() && field.get(config) == field.get(preset)) continue;
    lines.push_back({&field, quoted(field.get(config)), ""});
  }
  return text + yaml_of(lines);
}

std::string starter_yaml() {
  const Config defaults;
  std::vector<Line> lines;
  for (const Field& field : fields()) {
    if (field.is_model_override() || (field.applies && !field.applies(defaults))) continue;
    lines.push_back({&field, quoted(field.get(defaults)),
                     fmt::format("{}{}", field.sentence, field.accepted == "text" ? "" : " (" + field.accepted + ")")});
  }
  return "# Every value may be a list on the axes: model, grpo, optimizer, dispatcher, transport, compute. Each\n"
         "# combination becomes a variant. `moe-rl-bench config schema` describes all keys.\n" +
         yaml_of(lines);
}

}  // namespace mrb
