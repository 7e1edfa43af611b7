#include "planner/link.hpp"

#include <algorithm>

namespace mrb {

double alltoall_s(int ranks, double bytes_per_rank, const Link& link) {
  if (ranks < 2) return 0;
  return bytes_per_rank * (ranks - 1) / ranks / link.byte_per_s + link.latency_s;
}

double exchange_s(std::span<const double> bytes, int ranks, const Link& link) {
  const auto count = static_cast<std::size_t>(ranks);
  double busiest = 0;
  for (std::size_t rank = 0; rank < count; ++rank) {
    double out = 0, in = 0;
    for (std::size_t peer = 0; peer < count; ++peer) {
      if (peer == rank) continue;
      out += bytes[rank * count + peer];
      in += bytes[peer * count + rank];
    }
    busiest = std::max({busiest, out, in});
  }
  return busiest > 0 ? busiest / link.byte_per_s + link.latency_s : 0;
}

}  // namespace mrb
