#include "transport/bounds.hpp"

#include <fmt/format.h>

namespace mrb {

void require_inside(std::string_view side, RegionId region, std::size_t region_bytes, std::size_t offset_bytes,
                    std::size_t bytes) {
  if (bytes <= region_bytes && offset_bytes <= region_bytes - bytes) return;
  throw Error(ErrorKind::internal,
              fmt::format("a put of {} bytes at {} leaves its {} region {} of {} bytes", bytes, offset_bytes, side,
                          region, region_bytes),
              "report this with the command that shows it");
}

void throw_wrong_immediate(std::uint32_t immediate, int rank) {
  throw Error(ErrorKind::internal,
              fmt::format("a put of rank {} has the immediate {:#x}, which names sender {} and exchange {:#x}", rank,
                          immediate, immediate & (kRanksMax - 1), immediate >> kRankBits),
              "report this with the command that shows it");
}

}  // namespace mrb
