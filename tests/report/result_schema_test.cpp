#include "report/result_schema.hpp"

#include <nlohmann/json.hpp>

#include "report/json.hpp"
#include "report/made_up_run.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;
using Json = nlohmann::json;

namespace {

// Every key of `json`, at every depth, is a property of the schema, or falls under its additionalProperties.
void check_known(const Json& json, const Json& schema, const std::string& where) {
  INFO(where);
  if (json.is_array()) {
    REQUIRE(schema["type"] == "array");
    for (const Json& entry : json) check_known(entry, schema["items"], where + "[]");
  } else if (json.is_object()) {
    REQUIRE(schema["type"] == "object");
    if (schema.contains("required")) {
      for (const Json& name : schema["required"]) CHECK(json.contains(name.get<std::string>()));
    }
    for (const auto& [name, value] : json.items()) {
      if (schema.contains("additionalProperties")) {
        check_known(value, schema["additionalProperties"], where + "." + name);
        continue;
      }
      INFO(name);
      REQUIRE(schema["properties"].contains(name));
      check_known(value, schema["properties"][name], where + "." + name);
    }
  } else {
    // JSON Schema says integer where this library says number.
    const std::string types = schema["type"].dump();
    const std::string type =
        json.is_number_integer() && types.find("integer") != std::string::npos ? "integer" : json.type_name();
    CHECK_THAT(types, contains(type));
  }
}

}  // namespace

TEST_CASE("the schema of results knows every key that a result has, with its type", "[report]") {
  const Json schema = Json::parse(result_json_schema());
  check_known(Json::parse(result_json(made_up_run(), made_up_record())), schema, "");
  RunRecord record = made_up_record();
  record.results[0].status = ResultStatus::failed;  // no baseline: what is unknown is null
  compare_results(record.results);
  check_known(Json::parse(result_json(made_up_run(), record)), schema, "");
}
