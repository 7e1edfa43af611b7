#include "dispatch/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "base/error.hpp"
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
std::vector<std::vector<T>> reference_dispatch(const std::vector<RankRouting>& routing,
                                               const ExpertPlacement& placement, std::int64_t hidden,
                                               const std::vector<std::vector<T>>& tokens) {
  std::vector<std::vector<T>> rows(routing.size());
  for (int rank = 0; rank < placement.rank_count; ++rank) {
    for (const RowSource& source : reference_rows(routing, placement, rank)) {
      const T* token = tokens[static_cast<std::size_t>(source.rank)].data() + source.token * hidden;
      rows[static_cast<std::size_t>(rank)].insert(rows[static_cast<std::size_t>(rank)].end(), token, token + hidden);
    }
  }
  return rows;
}

namespace {

// Adds a row to a sum that is empty until its first row: 0 + -0.0 would change that row's sign.
template <class T>
void add(std::vector<T>& sum, const T* row, std::int64_t hidden) {
  if (sum.empty()) {
    sum.assign(row, row + hidden);
  } else {
    for (std::int64_t h = 0; h < hidden; ++h) sum[static_cast<std::size_t>(h)] += row[h];
  }
}

// The sum of one token's rows. `rows` and `ranks` (of its experts) are by k; a dropped copy has no row.
template <class T>
std::vector<T> sum_of_token(std::span<const T* const> rows, std::span<const int> ranks, int rank_count,
                            std::int64_t hidden, ReductionTree tree) {
  std::vector<T> sum;
  if (tree == ReductionTree::by_copy) {
    for (const T* row : rows) {
      if (row != nullptr) add(sum, row, hidden);
    }
  } else {
    for (int rank = 0; rank < rank_count; ++rank) {
      std::vector<T> sum_of_rank;
      for (std::size_t k = 0; k < rows.size(); ++k) {
        if (rows[k] != nullptr && ranks[k] == rank) add(sum_of_rank, rows[k], hidden);
      }
      if (!sum_of_rank.empty()) add(sum, sum_of_rank.data(), hidden);
    }
  }
  sum.resize(static_cast<std::size_t>(hidden));  // no row at all gives 0
  return sum;
}

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
                                              ReductionTree tree) {
  const auto rows_of_copy = rows_of_copies(routing, placement, hidden, rows);
  std::vector<std::vector<T>> tokens;
  for (std::size_t rank = 0; rank < routing.size(); ++rank) {
    std::vector<int> ranks;
    for (const std::int32_t expert_id : routing[rank].expert_ids) ranks.push_back(placement.rank_of(expert_id));
    const auto top_k = static_cast<std::size_t>(routing[rank].top_k);
    auto& sums = tokens.emplace_back();
    for (std::size_t first = 0; first < ranks.size(); first += top_k) {
      const auto sum = sum_of_token<T>(std::span(rows_of_copy[rank]).subspan(first, top_k),
                                       std::span(ranks).subspan(first, top_k), placement.rank_count, hidden, tree);
      sums.insert(sums.end(), sum.begin(), sum.end());
    }
  }
  return tokens;
}

template std::vector<std::vector<float>> reference_dispatch(const std::vector<RankRouting>&, const ExpertPlacement&,
                                                            std::int64_t, const std::vector<std::vector<float>>&);
template std::vector<std::vector<double>> reference_dispatch(const std::vector<RankRouting>&, const ExpertPlacement&,
                                                             std::int64_t, const std::vector<std::vector<double>>&);
template std::vector<std::vector<float>> reference_combine(const std::vector<RankRouting>&, const ExpertPlacement&,
                                                           std::int64_t, const std::vector<std::vector<float>>&,
                                                           ReductionTree);
template std::vector<std::vector<double>> reference_combine(const std::vector<RankRouting>&, const ExpertPlacement&,
                                                            std::int64_t, const std::vector<std::vector<double>>&,
                                                            ReductionTree);

namespace {

struct ReferenceRoute final : Route {
  std::vector<RankRouting> routing;  // of the only rank
};

// The plain code as a dispatcher, for one rank: the baseline a user can run alone.
template <class T>
class ReferenceDispatcher final : public Dispatcher {
 public:
  explicit ReferenceDispatcher(const DispatcherOptions& options)
      : placement_(options.placement), hidden_(options.hidden) {
    capabilities_ = {.name = "reference",
                     .pattern = "none: all experts are on one rank",
                     .tree = ReductionTree::by_copy,
                     .top_k_max = placement_.expert_count,
                     .ranks_max = 1};
  }

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }
  DispatchBytes bytes() const override { return {}; }

  std::unique_ptr<Route> route(const Routing& routing) override {
    auto route = std::make_unique<ReferenceRoute>();
    route->token_count = routing.token_count();
    route->top_k = routing.top_k;
    route->copies_of = count_copies(routing, placement_);
    route->rows_of = route->copies_of;
    route->row_count = std::accumulate(route->rows_of.begin(), route->rows_of.end(), std::int64_t{0});
    route->routing = {{{routing.expert_ids.begin(), routing.expert_ids.end()}, routing.top_k}};
    return route;
  }

  void dispatch(const Route& any_route, TokenSide from, RowSide to) override {
    const auto& route = static_cast<const ReferenceRoute&>(any_route);
    const auto* tokens = static_cast<const T*>(from.tokens);
    const auto rows =
        reference_dispatch<T>(route.routing, placement_, hidden_, {{tokens, tokens + route.token_count * hidden_}});
    std::ranges::copy(rows[0], static_cast<T*>(to.rows));
    if (from.copy_values == nullptr) return;
    auto* row_value = static_cast<T*>(to.row_values);
    for (const RowSource& source : reference_rows(route.routing, placement_, 0)) {
      *row_value++ = static_cast<const T*>(from.copy_values)[source.token * route.top_k + source.k];
    }
  }

  void combine(const Route& any_route, RowSide from, TokenSide to) override {
    const auto& route = static_cast<const ReferenceRoute&>(any_route);
    const auto* rows = static_cast<const T*>(from.rows);
    const auto tokens = reference_combine<T>(route.routing, placement_, hidden_,
                                             {{rows, rows + route.row_count * hidden_}}, capabilities_.tree);
    std::ranges::copy(tokens[0], static_cast<T*>(to.tokens));
    if (to.copy_values == nullptr) return;
    auto* copy_values = static_cast<T*>(to.copy_values);
    std::fill_n(copy_values, route.token_count * route.top_k, T{0});
    const auto* row_value = static_cast<const T*>(from.row_values);
    for (const RowSource& source : reference_rows(route.routing, placement_, 0)) {
      copy_values[source.token * route.top_k + source.k] = *row_value++;
    }
  }

 private:
  ExpertPlacement placement_;
  std::int64_t hidden_;
  DispatcherCapabilities capabilities_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_reference_dispatcher(Channel& channel, const DispatcherOptions& options) {
  if (channel.size() > 1) {
    throw Error(ErrorKind::config,
                fmt::format("dispatcher 'reference' works on one rank, and there are {}", channel.size()),
                "use dispatcher: alltoall or rank_dedup, or ranks: 1");
  }
  if (options.element == ElementType::f64) return std::make_unique<ReferenceDispatcher<double>>(options);
  return std::make_unique<ReferenceDispatcher<float>>(options);
}

}  // namespace mrb
