#include "manifest/yaml_node.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <regex>

#include "base/error.hpp"
#include "config/faults.hpp"

namespace mrb {

namespace {

constexpr int kDepthMax = 100;
constexpr std::size_t kValuesMax = 100'000;  // with what aliases repeat; an MPIJob has a few hundred

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  YamlNode read(const YAML::Node& from, const std::string& path, int depth) {
    if (depth > kDepthMax || ++values_ > kValuesMax) {
      refuse(from, "this is nested too deeply, or repeats itself without end", "write out what the aliases stand for");
    }
    YamlNode node{.path = path, .line = from.Mark().line + 1};
    if (from.IsScalar()) {
      node.text = from.Scalar();
      node.kind = scalar_kind(from);
    } else if (from.IsSequence()) {
      node.kind = YamlNode::Kind::list;
      for (const YAML::Node& item : from) {
        node.items.push_back(read(item, fmt::format("{}[{}]", path, node.items.size()), depth + 1));
      }
    } else if (from.IsMap()) {
      node.kind = YamlNode::Kind::map;
      for (const auto& entry : from) {
        const YAML::Node &key = entry.first, &value = entry.second;
        if (!key.IsScalar()) refuse(key, "a list or a mapping stands where a key belongs", "write keys like `spec:`");
        if (key.Scalar() == "<<") refuse(key, "merge keys (`<<`) are not followed here", "write the keys out");
        // A key with dots or slashes, like a label's, is one step of the path.
        const bool is_plain = key.Scalar().find_first_of("./") == std::string::npos;
        const std::string step = is_plain ? key.Scalar() : "[" + shown(key.Scalar()) + "]";
        const bool has_dot = is_plain && !path.empty();
        node.fields.emplace_back(key.Scalar(), read(value, path + (has_dot ? "." : "") + step, depth + 1));
        // A value on a later line, or none at all, is looked for at its key.
        if (!value.IsScalar()) node.fields.back().second.line = key.Mark().line + 1;
      }
    } else {
      node.kind = YamlNode::Kind::null;
    }
    return node;
  }

 private:
  [[noreturn]] void refuse(const YAML::Node& at, const std::string& problem, const std::string& fix) const {
    throw Error(ErrorKind::config, fmt::format("{}:{}: {}", name_, at.Mark().line + 1, problem), fix);
  }

  static YamlNode::Kind scalar_kind(const YAML::Node& from) {
    if (from.Tag() == "!") return YamlNode::Kind::text;  // quoted
    static const std::regex boolean(
        "y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF");
    static const std::regex integer("[-+]?(0|[1-9][0-9_]*|0[0-7_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+)");
    static const std::regex number(
        "[-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\\.(inf|Inf|INF)|\\.(nan|NaN|NAN)");
    const std::string& text = from.Scalar();
    if (text.size() > 40) return YamlNode::Kind::text;
    if (std::regex_match(text, boolean)) return YamlNode::Kind::boolean;
    if (std::regex_match(text, integer)) return YamlNode::Kind::integer;
    if (std::regex_match(text, number)) return YamlNode::Kind::number;
    return YamlNode::Kind::text;
  }

  std::string name_;
  std::size_t values_ = 0;
};

}  // namespace

const YamlNode& YamlNode::operator[](std::string_view key) const {
  static const YamlNode missing;
  for (const auto& [name, value] : fields) {
    if (name == key) return value;
  }
  return missing;
}

std::optional<std::int64_t> YamlNode::integer() const {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (kind != Kind::integer || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<YamlNode> parse_yaml(const std::string& name, const std::string& text) {
  std::vector<YamlNode> documents;
  try {
    Reader reader(name);
    for (const YAML::Node& document : YAML::LoadAll(text)) {
      if (document.IsDefined() && !document.IsNull()) documents.push_back(reader.read(document, "", 0));
    }
  } catch (const YAML::Exception& error) {
    throw Error(ErrorKind::config, fmt::format("{}:{}: this is not YAML: {}", name, error.mark.line + 1, error.msg),
                "look at the indentation and at what is not closed: a quote, a bracket");
  }
  return documents;
}

std::string_view kind_text(YamlNode::Kind kind) {
  switch (kind) {
    case YamlNode::Kind::missing:
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::boolean:
      return "a boolean";
    case YamlNode::Kind::integer:
      return "an integer";
    case YamlNode::Kind::number:
      return "a number";
    case YamlNode::Kind::text:
      return "text";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a mapping";
  }
  return "";
}

bool is_placeholder(const YamlNode& node) {
  static const std::regex placeholder(R"(\$\{?[A-Za-z_][A-Za-z0-9_]*\}?)");
  return node.kind == YamlNode::Kind::text && node.text.size() < 100 && std::regex_match(node.text, placeholder);
}

}  // namespace mrb
