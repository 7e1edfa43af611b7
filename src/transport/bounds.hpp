// The check every transport makes before it touches memory.
#pragma once

#include <cstddef>
#include <string_view>

#include "transport/transport.hpp"

namespace mrb {

// Throws Error(internal) with all values unless [offset, offset + bytes) lies inside a region of
// `region_bytes`. `side` says whose it is: "source", "target".
void require_inside(std::string_view side, RegionId region, std::size_t region_bytes, std::size_t offset_bytes,
                    std::size_t bytes);

}  // namespace mrb
