#include <nlohmann/json.hpp>

#include "config/fields.hpp"
#include "config/settings.hpp"
#include "support/catch.hpp"

using namespace mrb;
using Json = nlohmann::json;

namespace {

// The mapping of keys in which a section's keys stand; a section that can be named may also be a plain value.
Json keys_of(const Json& section) {
  return section.value("anyOf", Json::array({nullptr, section}))[1]["properties"];
}

int leaves(const Json& properties) {
  int count = 0;
  for (const auto& [key, schema] : properties.items()) {
    const bool is_section =
        schema.contains("properties") || (schema.contains("anyOf") && schema["anyOf"][1].contains("properties"));
    count += is_section ? leaves(keys_of(schema)) : 1;
  }
  return count;
}

}  // namespace

TEST_CASE("the schema has every field at its place and nothing else", "[config]") {
  const Json schema = Json::parse(config_json_schema());
  CHECK(schema["$schema"] == "http://json-schema.org/draft-07/schema#");
  CHECK(schema["additionalProperties"] == false);
  Json properties = schema["properties"];
  for (const Field& field : fields()) {
    INFO(field.key);
    const bool is_top = !field.names_section && field.key == field.section();
    const std::string word = field.names_section ? "name" : field.key.substr(field.key.find('.') + 1);
    const Json at = is_top ? properties.at(field.key) : keys_of(properties.at(field.section())).at(word);
    CHECK(at.at("description") == field.sentence);
    const Json value = field.is_axis() ? at.at("anyOf")[0] : at;
    CHECK(value.at("type") == field.type);
    if (field.low) CHECK(value.at("minimum").get<double>() == *field.low);
    if (field.high) CHECK(value.at("maximum").get<double>() == *field.high);
    if (field.type == "string" && !field.choices.empty()) CHECK(value.at("enum") == Json(field.choices));
  }
  properties.erase("baseline");
  CHECK(leaves(properties) == static_cast<int>(fields().size()));
}

TEST_CASE("the schema takes lists on axes alone, and methods alone in the baseline", "[config]") {
  const Json properties = Json::parse(config_json_schema())["properties"];
  CHECK(properties["seed"].contains("type"));
  CHECK(properties["dispatcher"]["anyOf"][0]["anyOf"][1]["type"] == "array");
  CHECK(properties["grpo"]["properties"]["prompts"]["anyOf"][1]["items"] ==
        Json({{"type", "integer"}, {"minimum", 1}, {"maximum", 1048576}}));
  const Json baseline = properties["baseline"]["properties"];
  CHECK(baseline["dispatcher"]["anyOf"][0]["type"] == "string");
  CHECK(baseline["transport"]["anyOf"][1]["properties"]["provider"]["enum"] == Json({"tcp", "shm", "efa"}));
  CHECK_FALSE(baseline.contains("seed"));
  CHECK_FALSE(baseline.contains("model"));
}
