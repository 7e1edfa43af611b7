// Routing without a model: what a router might decide, by several laws, for measuring dispatchers alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/reference.hpp"

namespace mrb {

// Any rank can draw any rank's routing of any iteration by itself. The experts of one token differ.
class RoutingSource {
 public:
  virtual ~RoutingSource() = default;
  virtual RankRouting draw(std::uint64_t iteration, int rank, std::int64_t tokens) const = 0;
};

struct RoutingShape {
  int expert_count = 0;
  int rank_count = 1;
  int top_k = 1;
  std::uint64_t seed = 0;
};

// What `text` names:
//
//   uniform               each set of top_k experts is as likely
//   zipf:S                experts in a drawn order of popularity, the i-th with weight i^-S; drawn one after the other
//                         without putting back
//   group_limited:G:N     experts in G equal groups; each token draws N groups, then its experts among those, uniformly
//   hot                   one expert, the same for all, is among those of every token; the others are uniform
//   trace:FILE            a recorded one: a line per token with its top_k expert ids (-1: dropped), taken in turn by
//                         iteration and rank, from the beginning again after the last line
//
// Throws Error(config) for any other text, numbers that do not fit the shape, and lines of a trace that do not, with
// their number; Error(environment) for a file that cannot be read.
std::unique_ptr<RoutingSource> make_routing_source(const std::string& text, const RoutingShape&);

// What make_routing_source() takes, for help and errors.
std::string routing_source_forms();

}  // namespace mrb
