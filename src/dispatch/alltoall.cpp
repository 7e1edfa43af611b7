// The plain exchange: one row per copy, one block per pair of ranks.
//
// Three tokens of rank 0, top_k = 2, experts 0 and 1 on rank 0, 2 and 3 on rank 1:
//
//   token 0 -> experts 2, 0        slots, by expert, token, k:  e0: t0  |  e2: t0 t2  e3: t1 t2
//   token 1 -> expert 3                                 block to rank 0  |  block to rank 1
//   token 2 -> experts 3, 2
//
// On the experts' rank the blocks come as [source][local expert] and become rows in [local expert][source]
// order: whole runs of rows are copied, nothing is sorted. combine() goes the same way back, and the tokens'
// rank adds the rows of each token in ascending k.
#include <algorithm>
#include <limits>
#include <numeric>

#include "dispatch/row_exchange.hpp"

namespace mrb {

namespace {

// Rows of one (source, local expert), in the source's block and among this rank's rows.
struct Run {
  std::int64_t block_row = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

struct AllToAllRoute final : Route {
  RowBlocks blocks;
  std::vector<std::int64_t> copy_in_slot;       // this rank's copies (t * top_k + k) in sending order
  std::vector<std::int64_t> block_row_of_copy;  // row in the block to the expert's rank
  std::vector<int> target_of_copy;              // the expert's rank; -1 for a dropped copy
  std::vector<std::int64_t> first_slot;         // by target
  std::vector<std::vector<Run>> runs;           // by source
};

template <class T>
class AllToAll final : public Dispatcher {
 public:
  AllToAll(Channel& channel, const DispatcherOptions& options)
      : placement_(options.placement),
        exchange_(channel, options),
        counts_(exchange_.blocks(), placement_.rank_count, static_cast<std::size_t>(placement_.expert_count)) {
    capabilities_ = {.name = "alltoall",
                     .pattern = "one row per (token, expert)",
                     .tree = ReductionTree::by_copy,
                     .top_k_max = placement_.expert_count,
                     .ranks_max = std::numeric_limits<int>::max()};  // as many as the channel connects
  }

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }
  DispatchBytes bytes() const override { return exchange_.bytes(); }

  std::unique_ptr<Route> route(const Routing& routing) override {
    const auto mine = count_copies(routing, placement_);
    const CopyCounts counts(placement_, counts_.gather(mine), mine.size());

    auto route = std::make_unique<AllToAllRoute>();
    route->token_count = routing.token_count();
    route->top_k = routing.top_k;
    counts.describe(*route, exchange_.rank());
    const PairTable copies = counts.by_pair();
    route->blocks = exchange_.plan(copies, copies);
    give_slots(routing, mine, *route);
    find_runs(counts, *route);
    return route;
  }

  void dispatch(const Route& any_route, TokenSide from, RowSide to) override {
    const auto& route = static_cast<const AllToAllRoute&>(any_route);
    const auto* tokens = static_cast<const T*>(from.tokens);
    const auto* copy_values = static_cast<const T*>(from.copy_values);
    auto* rows = static_cast<T*>(to.rows);
    auto* row_values = static_cast<T*>(to.row_values);
    const Values values = values_between(from, to);
    const std::int64_t hidden = exchange_.hidden();
    exchange_.to_experts(
        route.blocks, values,
        [&](int target, RowBlock<T> block) {
          const std::int64_t first = route.first_slot[static_cast<std::size_t>(target)];
          for (std::int64_t row = 0; row < route.blocks.copies.at(exchange_.rank(), target); ++row) {
            const std::int64_t copy = route.copy_in_slot[static_cast<std::size_t>(first + row)];
            std::copy_n(tokens + copy / route.top_k * hidden, hidden, block.rows + row * hidden);
            if (values == Values::sent) block.values[row] = copy_values[copy];
          }
        },
        [&](std::span<const RowBlock<const T>> blocks) {
          for (std::size_t source = 0; source < blocks.size(); ++source) {
            for (const Run& run : route.runs[source]) {
              std::copy_n(blocks[source].rows + run.block_row * hidden, run.rows * hidden, rows + run.row * hidden);
              if (values == Values::none) continue;
              std::copy_n(blocks[source].values + run.block_row, run.rows, row_values + run.row);
            }
          }
        });
  }

  void combine(const Route& any_route, RowSide from, TokenSide to) override {
    const auto& route = static_cast<const AllToAllRoute&>(any_route);
    const auto* rows = static_cast<const T*>(from.rows);
    const auto* row_values = static_cast<const T*>(from.row_values);
    const Values values = values_between(to, from);
    const std::int64_t hidden = exchange_.hidden();
    exchange_.to_tokens(
        route.blocks, values,
        [&](int target, RowBlock<T> block) {
          for (const Run& run : route.runs[static_cast<std::size_t>(target)]) {
            std::copy_n(rows + run.row * hidden, run.rows * hidden, block.rows + run.block_row * hidden);
            if (values == Values::none) continue;
            std::copy_n(row_values + run.row, run.rows, block.values + run.block_row);
          }
        },
        [&](std::span<const RowBlock<const T>> blocks) { add_up(route, blocks, values, to); });
  }

 private:
  // A counting sort by expert. It is stable, so the copies of one expert stay in the order of (token, k).
  void give_slots(const Routing& routing, std::span<const std::int64_t> copies_of_expert, AllToAllRoute& route) const {
    std::vector<std::int64_t> next_slot(copies_of_expert.size() + 1);
    std::partial_sum(copies_of_expert.begin(), copies_of_expert.end(), next_slot.begin() + 1);
    for (int target = 0; target < placement_.rank_count; ++target) {
      route.first_slot.push_back(next_slot[static_cast<std::size_t>(placement_.first_expert(target))]);
    }
    route.copy_in_slot.resize(static_cast<std::size_t>(next_slot.back()));
    route.block_row_of_copy.resize(routing.expert_ids.size());
    route.target_of_copy.assign(routing.expert_ids.size(), -1);
    for (std::size_t copy = 0; copy < routing.expert_ids.size(); ++copy) {
      const std::int32_t expert_id = routing.expert_ids[copy];
      if (expert_id < 0) continue;
      const int target = placement_.rank_of(expert_id);
      const std::int64_t slot = next_slot[static_cast<std::size_t>(expert_id)]++;
      route.copy_in_slot[static_cast<std::size_t>(slot)] = static_cast<std::int64_t>(copy);
      route.block_row_of_copy[copy] = slot - route.first_slot[static_cast<std::size_t>(target)];
      route.target_of_copy[copy] = target;
    }
  }

  void find_runs(const CopyCounts& counts, AllToAllRoute& route) const {
    const auto first_rows = counts.first_rows(exchange_.rank());
    for (int source = 0; source < placement_.rank_count; ++source) {
      auto& runs = route.runs.emplace_back();
      std::int64_t block_row = 0;
      for (int local = 0; local < placement_.experts_per_rank(); ++local) {
        const std::int64_t rows = counts.of(source, placement_.first_expert(exchange_.rank()) + local);
        if (rows == 0) continue;
        const std::int64_t row = first_rows[static_cast<std::size_t>(local * placement_.rank_count + source)];
        runs.push_back({.block_row = block_row, .row = row, .rows = rows});
        block_row += rows;
      }
    }
  }

  void add_up(const AllToAllRoute& route, std::span<const RowBlock<const T>> blocks, Values values,
              TokenSide to) const {
    const std::int64_t hidden = exchange_.hidden();
    auto* tokens = static_cast<T*>(to.tokens);
    auto* copy_values = static_cast<T*>(to.copy_values);
    std::vector<const T*> rows;  // of one token, in ascending k
    for (std::int64_t token = 0; token < route.token_count; ++token) {
      rows.clear();
      for (std::int64_t copy = token * route.top_k; copy < (token + 1) * route.top_k; ++copy) {
        const int target = route.target_of_copy[static_cast<std::size_t>(copy)];
        if (values == Values::sent) copy_values[copy] = 0;
        if (target < 0) continue;
        const auto& block = blocks[static_cast<std::size_t>(target)];
        const std::int64_t row = route.block_row_of_copy[static_cast<std::size_t>(copy)];
        rows.push_back(block.rows + row * hidden);
        if (values == Values::sent) copy_values[copy] = block.values[row];
      }
      sum_rows<T>(rows, hidden, tokens + token * hidden);
    }
  }

  ExpertPlacement placement_;
  RowExchange<T> exchange_;
  CountsExchange counts_;
  DispatcherCapabilities capabilities_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_alltoall_dispatcher(Channel& channel, const DispatcherOptions& options) {
  if (options.element == ElementType::f64) return std::make_unique<AllToAll<double>>(channel, options);
  return std::make_unique<AllToAll<float>>(channel, options);
}

}  // namespace mrb
