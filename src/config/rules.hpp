// What must fit together: rules about several fields of one point.
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"

namespace mrb {

// Fields that do not fit each other.
struct Misfit {
  std::vector<std::string> keys;  // of the fields involved, the likeliest to be meant first
  std::string problem;
  std::string fix;
};

// Whether the configuration is only looked at, or is to be executed too.
enum class Purpose { show, run };

std::vector<Misfit> misfits(const Config&, Purpose);

}  // namespace mrb
