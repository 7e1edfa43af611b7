#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "config/fields.hpp"
#include "config/grpo_presets.hpp"
#include "config/settings.hpp"

namespace mrb {

namespace {

// Where comments begin, so that they stand below each other.
constexpr std::size_t kCommentColumn = 36;

// In quotes, unless YAML and our list syntax both take it as it stands.
std::string quoted(const std::string& value) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const bool is_plain =
      !value.empty() && (is_word(value[0]) || value[0] == '/') && std::all_of(value.begin(), value.end(), [&](char c) {
        return is_word(c) || c == '_' || c == '.' || c == '-' || c == '+' || c == '/';
      });
  std::string lower = value;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (is_plain && lower != "null") return value;
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
  bool is_active = true;  // otherwise it is shown as a comment itself, to be filled in
};

// The lines as sections, in the order of the table; a section that can be named has its name as `name`.
std::string yaml_of(const std::vector<Line>& lines, const std::string& indent = "") {
  std::string text, section;
  for (const Line& line : lines) {
    const Field& field = *line.field;
    const bool is_in_section = field.names_section || field.key != field.section();
    if (is_in_section && field.section() != section) text += indent + field.section() + ":\n";
    section = is_in_section ? field.section() : "";
    const std::string word = field.names_section ? "name"
                             : is_in_section     ? field.key.substr(section.size() + 1)
                                                 : field.key;
    std::string row =
        fmt::format("{}{}{}{}: {}", indent, is_in_section ? "  " : "", line.is_active ? "" : "# ", word, line.value);
    if (!line.comment.empty()) row = fmt::format("{:<{}} # {}", row, kCommentColumn, line.comment);
    text += row + "\n";
  }
  return text;
}

}  // namespace

std::string settings_yaml(const Settings& settings, Origins origins) {
  Config preset;
  for (const char* key : {"model", "grpo.preset"}) find_field(key)->set(preset, settings.at(key).values[0]);
  std::vector<Line> lines, baseline;
  for (const Field& field : fields()) {
    const auto& [key, values, origin] = settings.at(field.key);
    const bool is_given = !values.empty() && !values[0].empty();  // a provider may be none
    const std::string comment = origins == Origins::shown ? origin : "";
    if (is_given) {
      lines.push_back({&field, list_text(values), comment});
    } else if (origins == Origins::shown && !field.preset.empty() && settings.at(field.preset).values.size() == 1) {
      lines.push_back({&field, field.get(preset), comment, false});
    }
    const auto named = settings.baseline.find(key);
    if (named != settings.baseline.end()) baseline.push_back({&field, quoted(named->second), ""});
  }
  return yaml_of(lines) + (baseline.empty() ? "" : "baseline:\n" + yaml_of(baseline, "  "));
}

std::string config_yaml(const Config& config, const std::vector<std::string>& comment) {
  std::string text;
  for (const auto& line : comment) text += "# " + line + "\n";
  Config preset;
  preset.model = find_model_preset(config.model.name).value_or(ModelShape{});
  apply_grpo_preset(config.grpo.preset, preset.grpo);
  std::vector<Line> lines;
  for (const Field& field : fields()) {
    if (field.applies && !field.applies(config)) continue;
    const bool has_preset = !field.preset.empty() && find_field(field.preset)->get(config) != "none";
    if (has_preset && field.get(config) == field.get(preset)) continue;
    lines.push_back({&field, quoted(field.get(config)), ""});
  }
  return text + yaml_of(lines);
}

std::string starter_yaml() {
  const Config defaults;
  std::vector<Line> lines;
  for (const Field& field : fields()) {
    const std::string& in_words = field.default_in_words;
    lines.push_back(
        {&field, in_words.empty() ? quoted(field.get(defaults)) : "",
         fmt::format("{} ({}{})", field.sentence, field.accepted, in_words.empty() ? "" : "; without it: " + in_words),
         in_words.empty()});
  }
  return "# Every key with its default; leave out what you do not change. On the axes (all but ranks, seed, "
         "measure,\n"
         "# output and transport.timeout_s) a list such as [1, 2, 4], 1,2,4 or 1-8*2 makes a variant of each "
         "value, and\n"
         "# several lists make every combination. `baseline: {dispatcher: alltoall}` names what others are "
         "compared\n"
         "# with; otherwise it is the first value of each list.\n" +
         yaml_of(lines);
}

}  // namespace mrb
