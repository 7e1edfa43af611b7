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

#include "dispatch/by_element.hpp"
#include "dispatch/row_exchange.hpp"
#include "dispatch/traffic_model.hpp"

namespace mrb {

DispatcherCapabilities alltoall_capabilities(const DispatcherOptions& options) {
  const double copies = static_cast<double>(options.tokens_max) * options.top_k;
  const BlockRows blocks = even_blocks(copies, copies, options.placement.rank_count);
  return {.name = "alltoall",
          .pattern = "one row per (token, expert)",
          .published = "NCCL all-to-all, as Megatron's alltoall dispatcher uses it",
          .tree = ReductionTree::by_copy,
          .top_k_max = options.placement.expert_count,
          .buffer_bytes = block_buffer_bytes(options, blocks),
          .buffer_formula = block_buffer_formula("tokens x top_k", blocks)};
}

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
        counts_(exchange_.blocks(), placement_.rank_count, static_cast<std::size_t>(placement_.expert_count)),
        capabilities_(alltoall_capabilities(options)) {}

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

  void settle(Route&) override {}  // route() has counted

  void dispatch_send(Route& any_route, TokenSide from, Values values) override {
    const auto& route = static_cast<const AllToAllRoute&>(any_route);
    const std::byte* tokens = exchange_.forth().encoded(static_cast<const T*>(from.tokens), route.token_count);
    const auto* copy_values = static_cast<const T*>(from.copy_values);
    const std::size_t row_bytes = exchange_.forth().row_bytes();
    exchange_.count_dispatched(route.blocks.copies, values);
    exchange_.start_to_experts(route.blocks, values, [&](int target, OutBlock block) {
      const std::int64_t first = route.first_slot[static_cast<std::size_t>(target)];
      for (std::int64_t row = 0; row < route.blocks.copies.at(exchange_.rank(), target); ++row) {
        const std::int64_t copy = route.copy_in_slot[static_cast<std::size_t>(first + row)];
        block.rows =
            std::copy_n(tokens + static_cast<std::size_t>(copy / route.top_k) * row_bytes, row_bytes, block.rows);
        if (values == Values::sent) block.values[row] = copy_values[copy];
      }
    });
  }

  void dispatch_wait(Route& any_route, RowSide to) override {
    const auto& route = static_cast<const AllToAllRoute&>(any_route);
    auto* rows = static_cast<T*>(to.rows);
    exchange_.finish([&](std::span<const InBlock> blocks) {
      for (std::size_t source = 0; source < blocks.size(); ++source) {
        const InBlock& block = blocks[source];
        for (const Run& run : route.runs[source]) {
          exchange_.forth().decode(block.rows + offset_bytes(run, exchange_.forth()), run.rows,
                                   rows + run.row * exchange_.hidden());
          if (block.values == nullptr) continue;
          std::copy_n(block.values + run.block_row, run.rows, static_cast<T*>(to.row_values) + run.row);
        }
      }
    });
  }

  void combine_send(Route& any_route, RowSide from, Values values) override {
    const auto& route = static_cast<const AllToAllRoute&>(any_route);
    const auto* rows = static_cast<const T*>(from.rows);
    exchange_.count_combined(route.blocks.copies, values);
    exchange_.start_to_tokens(route.blocks, values, [&](int target, OutBlock block) {
      for (const Run& run : route.runs[static_cast<std::size_t>(target)]) {
        exchange_.back().encode(rows + run.row * exchange_.hidden(), run.rows,
                                block.rows + offset_bytes(run, exchange_.back()));
        if (block.values == nullptr) continue;
        std::copy_n(static_cast<const T*>(from.row_values) + run.row, run.rows, block.values + run.block_row);
      }
    });
  }

  void combine_wait(Route& any_route, TokenSide to) override {
    const auto& route = static_cast<const AllToAllRoute&>(any_route);
    exchange_.finish([&](std::span<const InBlock> blocks) { add_up(route, blocks, to); });
  }

 private:
  using OutBlock = typename RowExchange<T>::OutBlock;
  using InBlock = typename RowExchange<T>::InBlock;

  static std::size_t offset_bytes(const Run& run, const RowSums<T>& rows) {
    return static_cast<std::size_t>(run.block_row) * rows.row_bytes();
  }

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

  void add_up(const AllToAllRoute& route, std::span<const InBlock> blocks, TokenSide to) {
    const std::size_t row_bytes = exchange_.back().row_bytes();
    exchange_.back().from_wire(
        route.token_count,
        [&](std::int64_t token, std::vector<const std::byte*>& parts) {  // in ascending k
          for (std::int64_t copy = token * route.top_k; copy < (token + 1) * route.top_k; ++copy) {
            const int target = route.target_of_copy[static_cast<std::size_t>(copy)];
            if (target < 0) continue;
            const auto row = static_cast<std::size_t>(route.block_row_of_copy[static_cast<std::size_t>(copy)]);
            parts.push_back(blocks[static_cast<std::size_t>(target)].rows + row * row_bytes);
          }
        },
        static_cast<T*>(to.tokens));
    if (blocks.front().values == nullptr) return;
    auto* copy_values = static_cast<T*>(to.copy_values);
    for (std::size_t copy = 0; copy < route.target_of_copy.size(); ++copy) {
      const int target = route.target_of_copy[copy];
      copy_values[copy] =
          target < 0 ? T{0} : blocks[static_cast<std::size_t>(target)].values[route.block_row_of_copy[copy]];
    }
  }

  ExpertPlacement placement_;
  RowExchange<T> exchange_;
  CountsExchange counts_;
  DispatcherCapabilities capabilities_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_alltoall_dispatcher(Channel& channel, const DispatcherOptions& options) {
  return make_by_element<AllToAll>(channel, options);
}

}  // namespace mrb
