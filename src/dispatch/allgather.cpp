// Every row to every rank, and sums back: all-gather and reduce-scatter.
//
// Three tokens of rank 0, top_k = 2, experts 0 and 1 on rank 0, 2 and 3 on rank 1:
//
//   token 0 -> experts 2, 0        block to rank 1:  rows t0 t1 t2   values of all six copies
//   token 1 -> experts 3, 2        back from it:     sums t0 t1 t2   the same; token 2's is not used
//   token 2 -> experts 0, 1
//
// route() sends every rank's expert ids to all, after which each finds its own copies: there are no counts to wait for
// but those of the tokens. combine() adds each token's rows on their rank, in ascending k, and the tokens' rank adds the
// sums of those ranks that have any, in ascending rank. Rows that no expert wants cross too: that is the price.
#include <algorithm>

#include "dispatch/by_element.hpp"
#include "dispatch/row_exchange.hpp"
#include "dispatch/traffic_model.hpp"

namespace mrb {

DispatcherCapabilities allgather_capabilities(const DispatcherOptions& options) {
  const double rows = static_cast<double>(options.tokens_max) * options.placement.rank_count;
  const BlockRows blocks = even_blocks(rows, rows * options.top_k, options.placement.rank_count);
  return {.name = "allgather",
          .pattern = "every row to every rank",
          .published = "Megatron's allgather dispatcher (NCCL all-gather and reduce-scatter)",
          .tree = ReductionTree::by_rank,
          .top_k_max = options.placement.expert_count,
          .buffer_bytes = block_buffer_bytes(options, blocks),
          .buffer_formula = block_buffer_formula("tokens x ranks", blocks)};
}

namespace {

// A copy whose expert is on this rank.
struct LocalCopy {
  std::int64_t copy = 0;   // t * top_k + k, on the token's rank
  std::int64_t place = 0;  // of its row here
};

struct AllGatherRoute final : Route {
  RowBlocks blocks;
  PairTable copies;                           // that are really wanted
  std::vector<std::vector<LocalCopy>> local;  // by source, in ascending copy
  std::vector<std::int32_t> target_of_copy;   // of this rank's copies; -1 for a dropped one
};

template <class T>
class AllGather final : public Dispatcher {
 public:
  AllGather(Channel& channel, const DispatcherOptions& options)
      : placement_(options.placement),
        exchange_(channel, options),
        counts_(exchange_.blocks(), placement_.rank_count, 1),
        capabilities_(allgather_capabilities(options)) {}

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }
  DispatchBytes bytes() const override { return exchange_.bytes(); }

  std::unique_ptr<Route> route(const Routing& routing) override {
    count_copies(routing, placement_);  // refuses what is no routing
    auto route = std::make_unique<AllGatherRoute>();
    route->token_count = routing.token_count();
    route->top_k = routing.top_k;
    for (const std::int32_t expert : routing.expert_ids) {
      route->target_of_copy.push_back(expert < 0 ? -1 : placement_.rank_of(expert));
    }

    const std::int64_t mine[] = {static_cast<std::int64_t>(routing.expert_ids.size())};
    const auto copies_of_rank = counts_.gather(mine);
    PairTable rows(placement_.rank_count), copies(placement_.rank_count), bytes(placement_.rank_count);
    for (int source = 0; source < placement_.rank_count; ++source) {
      for (int target = 0; target < placement_.rank_count; ++target) {
        const std::int64_t count = copies_of_rank[static_cast<std::size_t>(source)];
        copies.at(source, target) = count;
        rows.at(source, target) = count / routing.top_k;
        bytes.at(source, target) = count * static_cast<std::int64_t>(sizeof(std::int32_t));
      }
    }
    route->blocks = exchange_.plan(rows, copies);
    exchange_.blocks().run(
        exchange_.blocks().plan(bytes), bytes, "route",
        [&](int, std::byte* block) { std::ranges::copy(std::as_bytes(routing.expert_ids), block); },
        [&](std::span<const std::byte* const> blocks) { find_local_copies(blocks, copies_of_rank, *route); });
    return route;
  }

  void settle(Route&) override {}  // route() has counted

  void dispatch_send(Route& any_route, TokenSide from, Values values) override {
    const auto& route = static_cast<const AllGatherRoute&>(any_route);
    const std::byte* tokens = exchange_.forth().encoded(static_cast<const T*>(from.tokens), route.token_count);
    const std::size_t bytes = static_cast<std::size_t>(route.token_count) * exchange_.forth().row_bytes();
    exchange_.count_dispatched(route.copies, values);
    exchange_.start_to_experts(route.blocks, values, [&](int, OutBlock block) {
      std::copy_n(tokens, bytes, block.rows);
      if (values == Values::none) return;
      std::copy_n(static_cast<const T*>(from.copy_values), route.token_count * route.top_k, block.values);
    });
  }

  void dispatch_wait(Route& any_route, RowSide to) override {
    const auto& route = static_cast<const AllGatherRoute&>(any_route);
    const RowSums<T>& wire = exchange_.forth();
    auto* const rows = static_cast<T*>(to.rows);
    exchange_.finish([&](std::span<const InBlock> blocks) {
      for (std::size_t source = 0; source < blocks.size(); ++source) {
        const InBlock& block = blocks[source];
        const CastPhase cast = wire.cast_phase();
        for (const LocalCopy& local : route.local[source]) {
          const auto token = static_cast<std::size_t>(local.copy / route.top_k);
          wire.codec().decode(block.rows + token * wire.row_bytes(), rows + local.place * wire.hidden());
          if (block.values != nullptr) static_cast<T*>(to.row_values)[local.place] = block.values[local.copy];
        }
      }
    });
  }

  void combine_send(Route& any_route, RowSide from, Values values) override {
    const auto& route = static_cast<const AllGatherRoute&>(any_route);
    RowSums<T>& wire = exchange_.back();
    exchange_.count_combined(route.copies, values);
    exchange_.start_to_tokens(route.blocks, values, [&](int target, OutBlock block) {
      const auto& all = route.local[static_cast<std::size_t>(target)];
      auto local = all.begin();
      wire.to_wire(
          route.blocks.rows.at(target, exchange_.rank()),
          [&](std::int64_t token, std::vector<const T*>& parts) {
            for (; local != all.end() && local->copy / route.top_k == token; ++local) {
              parts.push_back(static_cast<const T*>(from.rows) + local->place * wire.hidden());
            }
          },
          block.rows);
      if (values == Values::none) return;
      std::fill_n(block.values, route.blocks.copies.at(target, exchange_.rank()), T{0});
      for (const LocalCopy& copy : all) {
        block.values[copy.copy] = static_cast<const T*>(from.row_values)[copy.place];
      }
    });
  }

  void combine_wait(Route& any_route, TokenSide to) override {
    const auto& route = static_cast<const AllGatherRoute&>(any_route);
    RowSums<T>& wire = exchange_.back();
    std::vector<int> targets;  // of one token
    exchange_.finish([&](std::span<const InBlock> blocks) {
      wire.from_wire(
          route.token_count,
          [&](std::int64_t token, std::vector<const std::byte*>& parts) {
            const auto first = route.target_of_copy.begin() + token * route.top_k;
            targets.assign(first, first + route.top_k);
            std::sort(targets.begin(), targets.end());
            targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
            for (const int target : targets) {
              if (target < 0) continue;
              parts.push_back(blocks[static_cast<std::size_t>(target)].rows +
                              static_cast<std::size_t>(token) * wire.row_bytes());
            }
          },
          static_cast<T*>(to.tokens));
      if (blocks.front().values == nullptr) return;
      for (std::size_t copy = 0; copy < route.target_of_copy.size(); ++copy) {
        const int target = route.target_of_copy[copy];
        static_cast<T*>(to.copy_values)[copy] =
            target < 0 ? T{0} : blocks[static_cast<std::size_t>(target)].values[copy];
      }
    });
  }

 private:
  using OutBlock = typename RowExchange<T>::OutBlock;
  using InBlock = typename RowExchange<T>::InBlock;

  // Counts everybody's copies for every expert, then gives those for this rank's experts their places: the order of
  // Route is by expert, source, and the source's copies.
  void find_local_copies(std::span<const std::byte* const> blocks, std::span<const std::int64_t> copies_of_rank,
                         AllGatherRoute& route) const {
    const auto experts = static_cast<std::size_t>(placement_.expert_count);
    const auto ids_of = [&](std::size_t source) {
      return std::span(reinterpret_cast<const std::int32_t*>(blocks[source]),
                       static_cast<std::size_t>(copies_of_rank[source]));
    };
    std::vector<std::int64_t> all(blocks.size() * experts);
    for (std::size_t source = 0; source < blocks.size(); ++source) {
      for (const std::int32_t expert : ids_of(source)) {
        if (expert >= 0) ++all[source * experts + static_cast<std::size_t>(expert)];
      }
    }
    const CopyCounts counts(placement_, all, experts);
    counts.describe(route, exchange_.rank());
    route.copies = counts.by_pair();
    auto next_row = counts.first_rows(exchange_.rank());
    const int first_expert = placement_.first_expert(exchange_.rank());
    for (std::size_t source = 0; source < blocks.size(); ++source) {
      auto& local = route.local.emplace_back();
      const auto ids = ids_of(source);
      for (std::size_t copy = 0; copy < ids.size(); ++copy) {
        if (ids[copy] < 0 || placement_.rank_of(ids[copy]) != exchange_.rank()) continue;
        const auto expert = static_cast<std::size_t>(ids[copy] - first_expert);
        local.push_back(
            {.copy = static_cast<std::int64_t>(copy), .place = next_row[expert * blocks.size() + source]++});
      }
    }
  }

  ExpertPlacement placement_;
  RowExchange<T> exchange_;
  CountsExchange counts_;
  DispatcherCapabilities capabilities_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_allgather_dispatcher(Channel& channel, const DispatcherOptions& options) {
  return make_by_element<AllGather>(channel, options);
}

}  // namespace mrb
