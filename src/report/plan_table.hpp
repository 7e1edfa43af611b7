// The capacity report as people read it in the terminal.
#pragma once

#include <string>

#include "planner/plan_report.hpp"

namespace mrb {

// Header lines begin with '#'. Everything is modelled and says so, with the error that validation found where there is
// one.
std::string plan_table(const PlanReport&);

}  // namespace mrb
