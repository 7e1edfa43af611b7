#include "dispatch/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "dispatch/by_element.hpp"
#include "dispatch/copy_counts.hpp"

namespace mrb {

std::vector<RowSource> reference_rows(const std::vector<RankRouting>& routing, const ExpertPlacement& placement,
                                      int rank) {
  std::vector<RowSource> rows;
  for (int local = 0; local < placement.experts_per_rank(); ++local) {
    const int expert = placement.first_expert(rank) + local;
    for (int source = 0; source < static_cast<int>(routing.size()); ++source) {
      const RankRouting& theirs = routing[static_cast<std::size_t>(source)];
      for (std::size_t copy = 0; copy < theirs.expert_ids.size(); ++copy) {
        if (theirs.expert_ids[copy] != expert) continue;
        const auto index = static_cast<std::int64_t>(copy);
        rows.push_back({.rank = source, .token = index / theirs.top_k, .k = static_cast<int>(index % theirs.top_k)});
      }
    }
  }
  return rows;
}

template <class T>
std::vector<T> after_the_journey(const RowCodec<T>& codec, const T* row, std::int64_t hidden) {
  std::vector<std::byte> encoded(codec.row_bytes());
  std::vector<T> decoded(static_cast<std::size_t>(hidden));
  codec.encode(row, encoded.data());
  codec.decode(encoded.data(), decoded.data());
  return decoded;
}

template <class T>
std::vector<std::vector<T>> reference_dispatch(const std::vector<RankRouting>& routing,
                                               const ExpertPlacement& placement, std::int64_t hidden,
                                               const std::vector<std::vector<T>>& tokens, WireType wire) {
  const RowCodec<T> codec(wire, hidden);
  std::vector<std::vector<T>> rows(routing.size());
  for (int rank = 0; rank < placement.rank_count; ++rank) {
    for (const RowSource& source : reference_rows(routing, placement, rank)) {
      const T* token = tokens[static_cast<std::size_t>(source.rank)].data() + source.token * hidden;
      const auto row = after_the_journey(codec, token, hidden);
      rows[static_cast<std::size_t>(rank)].insert(rows[static_cast<std::size_t>(rank)].end(), row.begin(), row.end());
    }
  }
  return rows;
}

namespace {

// A sum of rows that is empty until the first: 0 + -0.0 would change that row's sign.
template <class T>
class Sum {
 public:
  void add(const std::vector<T>& row) {
    if (sum_.empty()) {
      sum_ = row;
    } else {
      for (std::size_t h = 0; h < row.size(); ++h) sum_[h] += row[h];
    }
  }
  bool empty() const { return sum_.empty(); }
  const std::vector<T>& row() const { return sum_; }

 private:
  std::vector<T> sum_;
};

}  // namespace

// The plain words of ReductionTree.
template <class T>
std::vector<T> reference_sum(const TokenCopies<T>& copies, const ExpertPlacement& placement, const RowCodec<T>& codec,
                             std::int64_t hidden, ReductionTree tree) {
  const auto travelled = [&](const T* row) { return after_the_journey(codec, row, hidden); };
  const auto sum_of_rank = [&](int rank) {
    Sum<T> sum;
    for (std::size_t k = 0; k < copies.rows.size(); ++k) {
      if (copies.rows[k] != nullptr && copies.ranks[k] == rank) sum.add({copies.rows[k], copies.rows[k] + hidden});
    }
    return sum;
  };
  const auto sum_of_ranks = [&](int first, int count) {
    Sum<T> sum;
    for (int rank = first; rank < first + count; ++rank) {
      const Sum<T> part = sum_of_rank(rank);
      if (!part.empty()) sum.add(travelled(part.row().data()));
    }
    return sum;
  };
  Sum<T> sum;
  switch (tree) {
    case ReductionTree::by_copy:
      for (const T* row : copies.rows) {
        if (row != nullptr) sum.add(travelled(row));
      }
      break;
    case ReductionTree::by_rank:
      sum = sum_of_ranks(0, placement.rank_count);
      break;
    case ReductionTree::by_node:
      for (int node = 0; node < placement.node_count(); ++node) {
        const Sum<T> part = sum_of_ranks(node * placement.node_size(), placement.node_size());
        if (!part.empty()) sum.add(travelled(part.row().data()));
      }
      break;
  }
  return sum.empty() ? std::vector<T>(static_cast<std::size_t>(hidden)) : sum.row();  // no row at all gives 0
}

namespace {

// rows[expert's rank] + this of each copy (t, k) of each rank; null for a dropped copy.
template <class T>
std::vector<std::vector<const T*>> rows_of_copies(const std::vector<RankRouting>& routing,
                                                  const ExpertPlacement& placement, std::int64_t hidden,
                                                  const std::vector<std::vector<T>>& rows) {
  std::vector<std::vector<const T*>> found;
  for (const RankRouting& mine : routing) found.emplace_back(mine.expert_ids.size(), nullptr);
  for (int rank = 0; rank < placement.rank_count; ++rank) {
    const T* row = rows[static_cast<std::size_t>(rank)].data();
    for (const RowSource& source : reference_rows(routing, placement, rank)) {
      const auto top_k = routing[static_cast<std::size_t>(source.rank)].top_k;
      found[static_cast<std::size_t>(source.rank)][static_cast<std::size_t>(source.token * top_k + source.k)] = row;
      row += hidden;
    }
  }
  return found;
}

}  // namespace

template <class T>
std::vector<std::vector<T>> reference_combine(const std::vector<RankRouting>& routing, const ExpertPlacement& placement,
                                              std::int64_t hidden, const std::vector<std::vector<T>>& rows,
                                              ReductionTree tree, WireType wire) {
  const RowCodec<T> codec(wire, hidden);
  const auto rows_of_copy = rows_of_copies(routing, placement, hidden, rows);
  std::vector<std::vector<T>> tokens;
  for (std::size_t rank = 0; rank < routing.size(); ++rank) {
    const RankRouting& mine = routing[rank];
    auto& sums = tokens.emplace_back();
    for (std::size_t first = 0; first < mine.expert_ids.size(); first += static_cast<std::size_t>(mine.top_k)) {
      TokenCopies<T> copies;
      for (std::size_t copy = first; copy < first + static_cast<std::size_t>(mine.top_k); ++copy) {
        copies.rows.push_back(rows_of_copy[rank][copy]);
        copies.ranks.push_back(placement.rank_of(mine.expert_ids[copy]));
      }
      const auto sum = reference_sum(copies, placement, codec, hidden, tree);
      sums.insert(sums.end(), sum.begin(), sum.end());
    }
  }
  return tokens;
}

#define MRB_INSTANTIATE(T)                                                                                             \
  template std::vector<std::vector<T>> reference_dispatch(const std::vector<RankRouting>&, const ExpertPlacement&,     \
                                                          std::int64_t, const std::vector<std::vector<T>>&, WireType); \
  template std::vector<std::vector<T>> reference_combine(const std::vector<RankRouting>&, const ExpertPlacement&,      \
                                                         std::int64_t, const std::vector<std::vector<T>>&,             \
                                                         ReductionTree, WireType);                                     \
  template std::vector<T> reference_sum(const TokenCopies<T>&, const ExpertPlacement&, const RowCodec<T>&,             \
                                        std::int64_t, ReductionTree);                                                  \
  template std::vector<T> after_the_journey(const RowCodec<T>&, const T*, std::int64_t);
MRB_INSTANTIATE(float)
MRB_INSTANTIATE(double)
#undef MRB_INSTANTIATE

DispatcherCapabilities reference_capabilities(const DispatcherOptions& options) {
  return {.name = "reference",
          .pattern = "nothing: all experts are on one rank",
          .published = "no kernel: the plainest code, which all others are checked against",
          .tree = ReductionTree::by_copy,
          .top_k_max = options.placement.expert_count,
          .ranks_max = 1,
          .buffer_bytes = 0,
          .buffer_formula = "none"};
}

namespace {

struct ReferenceRoute final : Route {
  std::vector<RankRouting> routing;  // of the only rank
};

// The plain code as a dispatcher, for one rank: the baseline a user can run alone.
template <class T>
class ReferenceDispatcher final : public Dispatcher {
 public:
  ReferenceDispatcher(Channel&, const DispatcherOptions& options)
      : options_(options), capabilities_(reference_capabilities(options)) {}

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }
  DispatchBytes bytes() const override { return {}; }

  std::unique_ptr<Route> route(const Routing& routing) override {
    auto route = std::make_unique<ReferenceRoute>();
    route->token_count = routing.token_count();
    route->top_k = routing.top_k;
    route->rows_of = count_copies(routing, options_.placement);
    route->row_count = std::accumulate(route->rows_of.begin(), route->rows_of.end(), std::int64_t{0});
    route->routing = {{{routing.expert_ids.begin(), routing.expert_ids.end()}, routing.top_k}};
    return route;
  }

  void settle(Route&) override {}

  void dispatch_send(Route& any_route, TokenSide from, Values values) override {
    const auto& route = static_cast<const ReferenceRoute&>(any_route);
    const auto* tokens = static_cast<const T*>(from.tokens);
    sent_ = reference_dispatch<T>(route.routing, options_.placement, options_.hidden,
                                  {{tokens, tokens + route.token_count * options_.hidden}}, options_.dispatch_wire)[0];
    sent_values_.clear();
    if (values == Values::none) return;
    for (const RowSource& source : reference_rows(route.routing, options_.placement, 0)) {
      sent_values_.push_back(static_cast<const T*>(from.copy_values)[source.token * route.top_k + source.k]);
    }
  }

  void dispatch_wait(Route&, RowSide to) override {
    std::ranges::copy(sent_, static_cast<T*>(to.rows));
    std::ranges::copy(sent_values_, static_cast<T*>(to.row_values));
  }

  void combine_send(Route& any_route, RowSide from, Values values) override {
    const auto& route = static_cast<const ReferenceRoute&>(any_route);
    const auto* rows = static_cast<const T*>(from.rows);
    sent_ = reference_combine<T>(route.routing, options_.placement, options_.hidden,
                                 {{rows, rows + route.row_count * options_.hidden}}, capabilities_.tree,
                                 options_.combine_wire)[0];
    sent_values_.clear();
    if (values == Values::none) return;
    sent_values_.resize(static_cast<std::size_t>(route.token_count * route.top_k));
    const auto* row_value = static_cast<const T*>(from.row_values);
    for (const RowSource& source : reference_rows(route.routing, options_.placement, 0)) {
      sent_values_[static_cast<std::size_t>(source.token * route.top_k + source.k)] = *row_value++;
    }
  }

  void combine_wait(Route&, TokenSide to) override {
    std::ranges::copy(sent_, static_cast<T*>(to.tokens));
    std::ranges::copy(sent_values_, static_cast<T*>(to.copy_values));
  }

 private:
  DispatcherOptions options_;
  DispatcherCapabilities capabilities_;
  std::vector<T> sent_, sent_values_;  // of the operation under way
};

}  // namespace

std::unique_ptr<Dispatcher> make_reference_dispatcher(Channel& channel, const DispatcherOptions& options) {
  return make_by_element<ReferenceDispatcher>(channel, options);
}

}  // namespace mrb
