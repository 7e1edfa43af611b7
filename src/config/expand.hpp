// Bounds of the product of lists.
#pragma once

#include <cstddef>

#include "config/settings.hpp"

namespace mrb {

constexpr std::size_t kPointsMax = 10000;

}  // namespace mrb
