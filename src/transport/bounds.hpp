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

[[noreturn]] void throw_wrong_immediate(std::uint32_t immediate, int rank);

// Throws Error(internal) unless `immediate` names `rank` as its sender and an exchange that callers may use.
inline void require_immediate(std::uint32_t immediate, int rank) {
  const bool is_own = (immediate & (kRanksMax - 1)) == static_cast<std::uint32_t>(rank);
  if (!is_own || immediate >> kRankBits >= kExchanges) throw_wrong_immediate(immediate, rank);
}

}  // namespace mrb
