#include <nlohmann/json.hpp>

#include "config/fields.hpp"
#include "config/list_syntax.hpp"
#include "config/settings.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

Json bound(const Field& field, double value) {
  return field.type == "integer" ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Json value_schema(const Field& field) {
  Json schema = {{"type", field.type}};
  if (field.type == "string" && !field.choices.empty()) schema["enum"] = field.choices;
  if (field.low) schema["minimum"] = bound(field, *field.low);
  if (field.high) schema["maximum"] = bound(field, *field.high);
  return schema;
}

// A value, and on an axis also a list of values or one line such as "1-8*2".
Json field_schema(const Field& field) {
  Json schema = value_schema(field);
  if (field.is_axis()) {
    const Json list = {{"type", "array"}, {"items", schema}, {"minItems", 1}, {"maxItems", kListValuesMax}};
    const Json line = {{"type", "string"}, {"pattern", "[,*+]"}};
    schema = {{"anyOf", {schema, list, line}}};
  }
  schema["description"] = field.sentence;
  return schema;
}

Json mapping_schema(const std::string& description) {
  return {{"type", "object"},
          {"description", description},
          {"additionalProperties", false},
          {"properties", Json::object()}};
}

// Puts the schema of a field where its key stands: at the top, in its section, or, for the name of a section, in
// place of the section (`dispatcher: alltoall`) and as `name` in it.
void place(Json& properties, const Field& field, const Json& schema) {
  const std::string section = field.section();
  if (field.names_section) {
    Json mapping = mapping_schema(field.sentence);
    mapping["properties"]["name"] = schema;
    properties[section] = {{"anyOf", {schema, mapping}}};
  } else if (section == field.key) {
    properties[section] = schema;
  } else {
    Json& entry = properties[section];
    if (entry.is_null()) entry = mapping_schema("Settings of " + section);
    Json& mapping = entry.contains("anyOf") ? entry["anyOf"][1] : entry;
    mapping["properties"][field.key.substr(section.size() + 1)] = schema;
  }
}

}  // namespace

std::string config_json_schema() {
  Json schema = mapping_schema("Every key is optional; what is left out has its default");
  Json baseline = mapping_schema("The variant that others are compared with; first values where nothing is said");
  for (const Field& field : fields()) {
    place(schema["properties"], field, field_schema(field));
    if (field.kind == FieldKind::method) place(baseline["properties"], field, value_schema(field));
  }
  schema["properties"]["baseline"] = baseline;
  Json document = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "moe-rl-bench configuration"}};
  document.update(schema);
  return document.dump(2) + "\n";
}

std::vector<FieldDoc> field_docs() {
  const Config defaults;
  std::vector<FieldDoc> docs;
  for (const Field& field : fields()) {
    docs.push_back({field.key, field.flag(), field.sentence, field.accepted,
                    field.default_in_words.empty() ? field.get(defaults) : field.default_in_words});
  }
  return docs;
}

}  // namespace mrb
