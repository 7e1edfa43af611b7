// The routings that every dispatcher must get right: those that have broken dispatchers before, and random
// ones.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "dispatch/reference.hpp"

namespace mrb::test {

struct RoutingCase {
  std::string name;
  std::int64_t hidden = 1;
  ExpertPlacement placement;
  std::vector<RankRouting> routing;  // by rank
};

// Different experts for each token, each copy dropped with probability `dropped`.
inline RankRouting random_routing(Random& random, std::int64_t tokens, int top_k, std::vector<std::int32_t> experts,
                                  double dropped = 0) {
  RankRouting routing{.expert_ids = {}, .top_k = top_k};
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(top_k); ++k) {
      std::swap(experts[k], experts[k + random.below(experts.size() - k)]);
      routing.expert_ids.push_back(random.uniform() < dropped ? -1 : experts[k]);
    }
  }
  return routing;
}

inline std::vector<std::int32_t> experts_from(int first, int count) {
  std::vector<std::int32_t> experts(static_cast<std::size_t>(count));
  std::iota(experts.begin(), experts.end(), first);
  return experts;
}

// Describes a case of random routing; what differs from these defaults is what the case is about.
struct CaseShape {
  std::string name;
  std::function<std::int64_t(int rank)> tokens = [](int) { return 6; };
  std::int64_t hidden = 5;
  int experts_per_rank = 3;
  int top_k = 3;
  double dropped = 0;
  std::function<std::vector<std::int32_t>(const ExpertPlacement&)> experts = [](const ExpertPlacement& placement) {
    return experts_from(0, placement.expert_count);
  };
};

inline RoutingCase make_case(const CaseShape& shape, int ranks, std::uint64_t seed) {
  RoutingCase made{.name = shape.name,
                   .hidden = shape.hidden,
                   .placement = {.expert_count = shape.experts_per_rank * ranks, .rank_count = ranks},
                   .routing = {}};
  for (int rank = 0; rank < ranks; ++rank) {
    Random random({seed, Random::routing, static_cast<std::uint64_t>(rank)});
    made.routing.push_back(
        random_routing(random, shape.tokens(rank), shape.top_k, shape.experts(made.placement), shape.dropped));
  }
  return made;
}

inline std::vector<RoutingCase> fixed_cases(int ranks) {
  const int last = ranks - 1;
  const auto only_expert_0 = [](const ExpertPlacement&) { return experts_from(0, 1); };
  const auto only_last_expert = [](const ExpertPlacement& p) { return experts_from(p.expert_count - 1, 1); };
  const auto only_middle_rank = [=](const ExpertPlacement& p) {
    return experts_from(p.first_expert(ranks / 2), p.experts_per_rank());
  };
  const auto never_expert_1 = [](const ExpertPlacement& p) {
    auto experts = experts_from(0, p.expert_count);
    experts.erase(experts.begin() + 1);
    return experts;
  };
  const CaseShape shapes[] = {
      {.name = "no tokens anywhere", .tokens = [](int) { return 0; }},
      {.name = "tokens on the last rank only", .tokens = [=](int rank) { return rank == last ? 7 : 0; }},
      {.name = "no tokens on rank 0", .tokens = [](int rank) { return rank == 0 ? 0 : 5; }},
      {.name = "fewer tokens on each further rank", .tokens = [=](int rank) { return last + 4 - rank; }},
      {.name = "one token per rank", .tokens = [](int) { return 1; }},
      {.name = "an odd number of tokens", .tokens = [](int) { return 13; }},
      {.name = "one expert per token", .top_k = 1},
      {.name = "all tokens to the first expert", .top_k = 1, .experts = only_expert_0},
      {.name = "all tokens to the last expert", .top_k = 1, .experts = only_last_expert},
      {.name = "all copies of all tokens on one rank", .top_k = 3, .experts = only_middle_rank},
      {.name = "every token to every expert", .top_k = 3 * ranks},
      {.name = "many copies of a token on each rank", .experts_per_rank = 8, .top_k = 7},
      {.name = "some copies dropped", .tokens = [](int) { return 20; }, .dropped = 0.3},
      {.name = "most tokens without any copy", .tokens = [](int) { return 20; }, .top_k = 1, .dropped = 0.8},
      {.name = "all copies dropped", .dropped = 1},
      {.name = "one expert per rank", .experts_per_rank = 1, .top_k = std::min(2, ranks)},
      {.name = "many experts per rank", .experts_per_rank = 32},
      {.name = "a local expert without rows", .tokens = [](int) { return 20; }, .top_k = 2, .experts = never_expert_1},
      {.name = "hidden size 1", .hidden = 1},
      {.name = "hidden size 3", .hidden = 3},
      {.name = "hidden size 16", .hidden = 16},
      {.name = "hidden size 2560", .hidden = 2560},
  };
  std::vector<RoutingCase> cases;
  for (const CaseShape& shape : shapes) cases.push_back(make_case(shape, ranks, cases.size()));
  return cases;
}

// Any shape at all.
inline RoutingCase random_case(int ranks, std::uint64_t seed, std::int64_t hidden, int experts_per_rank) {
  Random random({seed, Random::order});
  const auto experts = static_cast<std::uint64_t>(experts_per_rank * ranks);
  const std::uint64_t tokens_max = random.below(24);
  return make_case({.name = "random case " + std::to_string(seed),
                    .tokens =
                        [=](int rank) {
                          Random count({seed, Random::lengths, static_cast<std::uint64_t>(rank)});
                          return static_cast<std::int64_t>(count.below(tokens_max + 1));
                        },
                    .hidden = hidden,
                    .experts_per_rank = experts_per_rank,
                    .top_k = 1 + static_cast<int>(random.below(std::min<std::uint64_t>(experts, 8))),
                    .dropped = random.below(2) == 0 ? 0.0 : random.uniform()},
                   ranks, seed);
}

inline std::vector<RoutingCase> random_cases(int ranks, int count) {
  std::vector<RoutingCase> cases;
  for (std::uint64_t seed = 100; seed < 100 + static_cast<std::uint64_t>(count); ++seed) {
    Random random({seed});
    const auto hidden = static_cast<std::int64_t>(1 + random.below(40));
    cases.push_back(random_case(ranks, seed, hidden, static_cast<int>(1 + random.below(6))));
  }
  return cases;
}

}  // namespace mrb::test
