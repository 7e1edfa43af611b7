// The JSON Schema (draft-07) of result.json, for those who read our results with programs of their own.
#pragma once

#include <string>

namespace mrb {

std::string result_json_schema();

}  // namespace mrb
