#include "planner/backend_limits.hpp"

#include <algorithm>
#include <array>

namespace mrb {

std::string why_not(const std::string& backend, const ModelShape& shape, const Instance& instance, int ranks) {
  if (shape.experts % ranks != 0) return "the experts do not divide over the expert ranks";
  const bool is_uccl = backend == "uccl-ep";
  if (!is_uccl && !backend.starts_with("deepep-v1")) return "";
  constexpr std::array local = {1, 2, 4, 8};
  constexpr std::array nodes = {2, 3, 4, 6, 8, 12, 16, 18, 20};
  if (shape.top_k > 32) return backend + " carries at most 32 experts a token";
  if (ranks > 8 && instance.gpus_per_node != 8) return backend + " wants 8 GPUs a node";
  const bool is_compiled =
      ranks <= 8 ? std::ranges::count(local, ranks) > 0 : ranks % 8 == 0 && std::ranges::count(nodes, ranks / 8) > 0;
  if (!is_compiled) return backend + " has no kernel for this number of expert ranks";
  if (is_uccl && ranks > 64) return backend + " overflows a buffer's size above 64 expert ranks";
  return "";
}

}  // namespace mrb
