// A YAML file as a tree in which every value knows where it stands: what the rules of a manifest look at. Values mean
// what they mean to kubectl: `yes` and `on` are booleans, 8 is an integer, "8" is text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mrb {

struct YamlNode {
  enum class Kind { missing, null, boolean, integer, number, text, list, map };

  Kind kind = Kind::missing;
  std::string path;                                      // "spec.containers[0].name"; empty for a document
  int line = 0;                                          // from 1
  std::string text;                                      // of a scalar, as it stands there
  std::vector<YamlNode> items;                           // of a list
  std::vector<std::pair<std::string, YamlNode>> fields;  // of a map, in order; a key that stands twice is here twice

  bool is_given() const { return kind != Kind::missing && kind != Kind::null; }

  // The value of a key, or a node of kind `missing`; so chains of keys need no checks.
  const YamlNode& operator[](std::string_view key) const;

  std::optional<std::int64_t> integer() const;
};

// The documents of a file, those without a value left out. Ends at once whatever the text is: aliases are followed, but
// not without end. Throws Error(config) for what is no YAML; `name` says of which file.
std::vector<YamlNode> parse_yaml(const std::string& name, const std::string& text);

// "an integer", for messages.
std::string_view kind_text(YamlNode::Kind);

// Whether the text stands for a value that is filled in later: ${NAME}, as envsubst replaces it.
bool is_placeholder(const YamlNode&);

}  // namespace mrb
