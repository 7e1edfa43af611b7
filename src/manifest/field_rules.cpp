#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "config/faults.hpp"
#include "config/fields.hpp"
#include "manifest/quantity.hpp"
#include "manifest/rules.hpp"

namespace mrb {

extern const char* const mpijob_schema;  // by mrb_embed()

namespace {

using Json = nlohmann::json;

std::vector<std::string> names_of(const Json& properties) {
  std::vector<std::string> names;
  for (const auto& [name, schema] : properties.items()) names.push_back(name);
  return names;
}

class FieldCheck {
 public:
  explicit FieldCheck(ManifestFindings& findings) : findings_(findings) {}

  void check(const YamlNode& node, const Json& schema) {
    if (node.kind == YamlNode::Kind::null) {
      // Before {{...}} is filled in, and in files by hand: the API server drops it.
      findings_.add(ManifestSeverity::note, "null", node,
                    {fmt::format("{} has no value", node.path), "the API server leaves it out, strict tools refuse it",
                     "delete the line, or give it a value"});
      return;
    }
    if (is_placeholder(node) && schema.value("type", "") != "string") {
      if (!std::exchange(has_placeholder_, true)) {
        findings_.add(ManifestSeverity::error, "placeholder", node,
                      {fmt::format("{} is {}, and so may others be", node.path, shown(node.text)),
                       "this is a template: kubectl would send the text itself, and the API server refuses it",
                       "fill it in first: envsubst < FILE | moe-rl-bench manifest check -"});
      }
      return;
    }
    if (schema.contains("anyOf")) return check_quantity(node);
    const std::string type = schema.value("type", "");
    if (type == "object") {
      check_object(node, schema);
    } else if (type == "array") {
      check_array(node, schema);
    } else {
      check_scalar(node, schema, type);
    }
  }

 private:
  void wrong_kind(const YamlNode& node, const std::string& needed, const std::string& fix) {
    const bool is_scalar = !node.text.empty();
    findings_.add(ManifestSeverity::error, "type", node,
                  {is_scalar ? fmt::format("{} is {}, which is {}", node.path, shown(node.text), kind_text(node.kind))
                             : fmt::format("{} is {}", node.path, kind_text(node.kind)),
                   fmt::format("{} belongs here; the API server refuses the job", needed), fix});
  }

  void check_object(const YamlNode& node, const Json& schema) {
    if (node.kind != YamlNode::Kind::map) {
      return wrong_kind(node, "a mapping", "put keys with values below it, indented");
    }
    const Json none = Json::object();
    const Json& properties = schema.contains("properties") ? schema["properties"] : none;
    const Json* others = nullptr;  // the schema of keys without a name
    bool is_open = !schema.contains("additionalProperties") && properties.empty();
    if (schema.contains("additionalProperties")) {
      const Json& additional = schema["additionalProperties"];
      if (additional.is_object()) others = &additional;
      is_open = additional.is_boolean() && additional.get<bool>();
    }
    std::set<std::string> seen;
    for (const auto& [name, value] : node.fields) {
      if (!seen.insert(name).second) {
        findings_.add(ManifestSeverity::error, "duplicate-key", value,
                      {fmt::format("the key '{}' stands here a second time", shown(name)),
                       "only one of the two counts, and kubectl refuses the file", "keep one of them"});
      } else if (properties.contains(name)) {
        check(value, properties[name]);
      } else if (others != nullptr) {
        check(value, *others);
      } else if (!is_open) {
        unknown(node, value, name, names_of(properties));
      }
    }
    for (const Json& required : schema.value("required", Json::array())) {
      if (const std::string name = required; !node[name].is_given() && node[name].kind != YamlNode::Kind::null) {
        findings_.add_missing(ManifestSeverity::error, "required", node, name,
                              {fmt::format("{}{}{} is missing", node.path, node.path.empty() ? "" : ".", name),
                               "the API server refuses the job without it", fmt::format("add `{}:`", name)});
      }
    }
  }

  void unknown(const YamlNode& in, const YamlNode& value, const std::string& name,
               const std::vector<std::string>& known) {
    findings_.add(ManifestSeverity::error, "unknown-field", value,
                  {fmt::format("there is no field '{}'{}", shown(name), in.path.empty() ? "" : " in " + in.path),
                   "kubectl refuses it, or the API server leaves it out without a word: what it asks for never happens",
                   known.size() > 12 || known.empty()
                       ? fmt::format("did you mean '{}'? If not, delete it or put it where it belongs",
                                     known.empty() ? "" : nearest(name, known))
                       : fmt::format("use one of: {}", fmt::join(known, ", "))});
  }

  void check_array(const YamlNode& node, const Json& schema) {
    if (node.kind != YamlNode::Kind::list) {
      return wrong_kind(node, "a list", "put `- ` in front of each item, or write [a, b]");
    }
    for (const YamlNode& item : node.items) check(item, schema["items"]);
  }

  void check_scalar(const YamlNode& node, const Json& schema, const std::string& type) {
    using Kind = YamlNode::Kind;
    if (type == "string" && node.kind != Kind::text) {
      return wrong_kind(
          node, "text",
          node.text.empty() ? "give one text" : fmt::format("put it in quotes: \"{}\"", shown(node.text)));
    }
    if (type == "integer" && node.kind != Kind::integer) {
      return wrong_kind(node, "an integer", "write a whole number without quotes");
    }
    if (type == "boolean" && node.kind != Kind::boolean) {
      return wrong_kind(node, "true or false", "write true or false without quotes");
    }
    if (schema.contains("enum") &&
        std::find(schema["enum"].begin(), schema["enum"].end(), node.text) == schema["enum"].end()) {
      std::vector<std::string> known = schema["enum"];
      findings_.add(ManifestSeverity::error, "enum", node,
                    {fmt::format("{} is '{}'", node.path, shown(node.text)), "the API server refuses the job",
                     fmt::format("use one of: {}", fmt::join(known, ", "))});
    }
  }

  // An integer or text; nearly all of them are quantities, the others ports.
  void check_quantity(const YamlNode& node) {
    if (node.text.empty()) return wrong_kind(node, "a number or text", "write one value");
    const bool is_resource = node.path.find(".resources.") != std::string::npos || node.path.ends_with(".sizeLimit");
    if (is_placeholder(node) || !is_resource || parse_quantity(node.text)) return;
    findings_.add(ManifestSeverity::error, "quantity", node,
                  {fmt::format("{} is '{}', which is no quantity", node.path, shown(node.text)),
                   "the API server refuses the job", "write a number, or one with a suffix: 500m, 64Gi, 5120Mi"});
  }

  ManifestFindings& findings_;
  bool has_placeholder_ = false;
};

// The schema leaves metadata open, since the API server knows it anyway.
void check_metadata(const YamlNode& metadata, ManifestFindings& findings) {
  static const std::vector<std::string> known = {"name",          "generateName",      "namespace",
                                                 "labels",        "annotations",       "finalizers",
                                                 "generation",    "ownerReferences",   "resourceVersion",
                                                 "uid",           "selfLink",          "creationTimestamp",
                                                 "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"};
  for (const auto& [name, value] : metadata.fields) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      findings.add(ManifestSeverity::error, "unknown-field", value,
                   {fmt::format("there is no field '{}' in metadata", shown(name)),
                    "kubectl refuses it, or the API server leaves it out without a word",
                    fmt::format("did you mean '{}'?", nearest(name, known))});
    }
  }
  for (const char* key : {"labels", "annotations"}) {
    for (const auto& [name, value] : metadata[key].fields) {
      if (value.kind == YamlNode::Kind::text) continue;
      findings.add(ManifestSeverity::error, "type", value,
                   {fmt::format("{} is {}", value.path, kind_text(value.kind)), "labels and annotations are text",
                    fmt::format("put it in quotes: \"{}\"", shown(value.text))});
    }
  }
}

}  // namespace

void check_fields(const YamlNode& job, ManifestFindings& findings) {
  static const Json schema = Json::parse(std::string(mpijob_schema).substr(4));  // behind the line `---`
  FieldCheck(findings).check(job, schema);
  check_metadata(job["metadata"], findings);
}

}  // namespace mrb
