// The capacity report as a machine reads it.
#pragma once

#include <string>

#include "planner/plan_report.hpp"

namespace mrb {

// Every figure is modelled ("source": "modelled"); what is unknown is null.
std::string plan_json(const PlanReport&);

}  // namespace mrb
