#include <nlohmann/json.hpp>

#include "config/fields.hpp"
#include "config/settings.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

Json value_schema(const Field& field) {
  Json value = {{"type", field.type}};
  if (!field.choices.empty() && field.type == "string") {
    value["enum"] = Json::array();
    for (const auto& choice : field.choices) {
      if (!choice.empty()) value["enum"].push_back(choice);
    }
  }
  if (field.low) value["minimum"] = *field.low;
  if (field.high && *field.high < 1e300) value["maximum"] = *field.high;
  return value;
}

// A value, and on an axis also a list of values or one line such as "1-8*2".
Json field_schema(const Field& field) {
  Json schema = value_schema(field);
  if (field.is_axis()) {
    Json list = {{"type", "array"}, {"items", value_schema(field)}, {"minItems", 1}, {"maxItems", 1000}};
    schema = {{"anyOf", {value_schema(field), list, {{"type", "string"}, {"pattern", "[,*+]"}}}}};
  }
  schema["description"] = field.sentence;
  return schema;
}

}  // namespace

std::string config_json_schema() {
  Json properties = Json::object();
  for (const Field& field : fields()) {
    const std::string section = field.section();
    if (section == field.key && !field.names_section) {
      properties[field.key] = field_schema(field);
      continue;
    }
    if (field.names_section) {
      // The short form `dispatcher: alltoall`, or a mapping whose `name` it is.
      Json mapping = {{"type", "object"}, {"additionalProperties", false}, {"properties", {{"name", field_schema(field)}}}};
      properties[section] = {{"anyOf", {field_schema(field), mapping}}};
      continue;
    }
    Json& entry = properties[section];
    if (entry.is_null()) entry = {{"type", "object"}, {"additionalProperties", false}, {"properties", Json::object()}};
    Json& mapping = entry.contains("anyOf") ? entry["anyOf"][1] : entry;
    mapping["properties"][field.key.substr(section.size() + 1)] = field_schema(field);
  }
  properties["baseline"] = {{"type", "object"}, {"description", "The method that variants are compared with"}};
  Json methods = Json::object();
  for (const Field& field : fields()) {
    if (field.kind == FieldKind::method) methods[field.key] = value_schema(field);
  }
  properties["baseline"]["properties"] = methods;
  properties["baseline"]["additionalProperties"] = false;
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "moe-rl-bench configuration"},
                       {"type", "object"},
                       {"additionalProperties", false},
                       {"properties", properties}};
  return schema.dump(2) + "\n";
}

std::vector<FieldDoc> field_docs() {
  const Config defaults;
  std::vector<FieldDoc> docs;
  for (const Field& field : fields()) {
    docs.push_back({field.key, field.flag(), field.sentence, field.accepted,
                    field.is_model_override() ? "the preset's" : field.get(defaults)});
  }
  return docs;
}

}  // namespace mrb
