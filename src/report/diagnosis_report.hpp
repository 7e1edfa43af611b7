// What doctor found, for people and for machines.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "doctor/diagnosis.hpp"

namespace mrb {

// "fit", "fit, not comparable" or "not fit".
std::string verdict_of(const Diagnosis&);

// A line with the severity, the problem and its values; where, why and the fix below it.
std::string finding_text(const Finding&);

// A line for each finding and its values, why and fix below it; then what could not be looked at.
std::string diagnosis_text(const Diagnosis&);

// The findings that have this severity, a line each: "gdrcopy: there is no /dev/gdrdrv in this pod".
std::vector<std::string> finding_lines(const Diagnosis&, Severity);

nlohmann::ordered_json diagnosis_json(const Diagnosis&);

}  // namespace mrb
