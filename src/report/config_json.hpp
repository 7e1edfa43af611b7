// A configuration in results: every field that means anything in it, by key, as text.
#pragma once

#include <nlohmann/json.hpp>

#include "config/config.hpp"

namespace mrb {

nlohmann::ordered_json config_json(const Config&);

}  // namespace mrb
