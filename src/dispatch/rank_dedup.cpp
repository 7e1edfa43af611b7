// Each token crosses once per rank, however many of its experts live there, and comes back as one sum.
//
// Three tokens of rank 0, top_k = 2, experts 0 and 1 on rank 0, 2 and 3 on rank 1:
//
//   token 0 -> experts 2, 0        block to rank 1:  rows    t0   t1      t2
//   token 1 -> experts 3, 2                          copies  e2   e3 e2   e3     (of a row in ascending k)
//   token 2 -> expert 3
//
// route() tells the experts' rank, once, how many copies each row has and for which experts. dispatch() sends
// hidden rows and values only; the experts' rank copies each row to the place of every copy (fan-out).
// combine() adds the rows of one token there, in ascending k, and sends one sum; the tokens' rank adds the
// sums in ascending rank.
#include <algorithm>
#include <limits>

#include "dispatch/by_element.hpp"
#include "dispatch/fan.hpp"
#include "dispatch/row_exchange.hpp"
#include "dispatch/sent_rows.hpp"
#include "dispatch/traffic_model.hpp"

namespace mrb {

DispatcherCapabilities rank_dedup_capabilities(const DispatcherOptions& options) {
  const double tokens = static_cast<double>(options.tokens_max);
  const double rows = tokens * expected_groups(options, options.placement.rank_count);
  const BlockRows blocks = even_blocks(rows, tokens * options.top_k, options.placement.rank_count);
  return {.name = "rank_dedup",
          .pattern = "one row per (token, rank)",
          .published = "DeepEP intranode and v2 direct, NCCL-EP low-latency dispatch, MoRI",
          .tree = ReductionTree::by_rank,
          .top_k_max = options.placement.expert_count,
          .buffer_bytes = block_buffer_bytes(options, blocks),
          .buffer_formula = block_buffer_formula("tokens x distinct ranks of a token", blocks)};
}

namespace {

struct RankDedupRoute final : Route {
  RowBlocks blocks;
  TokenRows mine;             // what this rank sends
  std::vector<Fan> received;  // by source: the copies of the block's rows
};

template <class T>
class RankDedup final : public Dispatcher {
 public:
  RankDedup(Channel& channel, const DispatcherOptions& options)
      : placement_(options.placement),
        exchange_(channel, options),
        counts_(exchange_.blocks(), placement_.rank_count,
                static_cast<std::size_t>(placement_.expert_count + placement_.rank_count)),
        capabilities_(rank_dedup_capabilities(options)) {}

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }
  DispatchBytes bytes() const override { return exchange_.bytes(); }

  std::unique_ptr<Route> route(const Routing& routing) override {
    auto route = std::make_unique<RankDedupRoute>();
    route->token_count = routing.token_count();
    route->top_k = routing.top_k;

    // The list every rank gets: copies by expert, then rows by rank.
    auto mine = count_copies(routing, placement_);
    route->mine = rows_by_rank(routing, placement_);
    for (const SentRows& block : route->mine.sent) mine.push_back(static_cast<std::int64_t>(block.token_of_row.size()));
    const auto all = counts_.gather(mine);

    const CopyCounts counts(placement_, all, mine.size());
    counts.describe(*route, exchange_.rank());
    PairTable rows(placement_.rank_count);
    for (int source = 0; source < placement_.rank_count; ++source) {
      const auto list = std::span(all).subspan(static_cast<std::size_t>(source) * mine.size(), mine.size());
      for (int target = 0; target < placement_.rank_count; ++target) {
        rows.at(source, target) = list[static_cast<std::size_t>(placement_.expert_count + target)];
      }
    }
    route->blocks = exchange_.plan(rows, counts.by_pair());
    exchange_copies(counts, *route);
    return route;
  }

  void settle(Route&) override {}  // route() has counted

  void dispatch_send(Route& any_route, TokenSide from, Values values) override {
    const auto& route = static_cast<const RankDedupRoute&>(any_route);
    const std::byte* tokens = exchange_.forth().encoded(static_cast<const T*>(from.tokens), route.token_count);
    const auto* copy_values = static_cast<const T*>(from.copy_values);
    const std::size_t row_bytes = exchange_.forth().row_bytes();
    exchange_.count_dispatched(route.blocks.copies, values);
    exchange_.start_to_experts(route.blocks, values, [&](int target, OutBlock block) {
      const SentRows& sent = route.mine.sent[static_cast<std::size_t>(target)];
      for (const std::int64_t token : sent.token_of_row) {
        block.rows = std::copy_n(tokens + static_cast<std::size_t>(token) * row_bytes, row_bytes, block.rows);
      }
      if (values == Values::none) return;
      for (const std::int64_t copy : sent.copies) *block.values++ = copy_values[copy];
    });
  }

  void dispatch_wait(Route& any_route, RowSide to) override {
    const auto& route = static_cast<const RankDedupRoute&>(any_route);
    exchange_.finish([&](std::span<const InBlock> blocks) {
      for (std::size_t source = 0; source < blocks.size(); ++source) {
        fan_out(route.received[source], blocks[source], exchange_.forth(), to);
      }
    });
  }

  void combine_send(Route& any_route, RowSide from, Values values) override {
    const auto& route = static_cast<const RankDedupRoute&>(any_route);
    exchange_.count_combined(route.blocks.copies, values);
    exchange_.start_to_tokens(route.blocks, values, [&](int target, OutBlock block) {
      fan_in(route.received[static_cast<std::size_t>(target)], from, exchange_.back(), block);
    });
  }

  void combine_wait(Route& any_route, TokenSide to) override {
    const auto& route = static_cast<const RankDedupRoute&>(any_route);
    exchange_.finish([&](std::span<const InBlock> blocks) {
      add_up(route, blocks, static_cast<T*>(to.tokens));
      if (blocks.front().values != nullptr) return_values(route, blocks, static_cast<T*>(to.copy_values));
    });
  }

 private:
  using OutBlock = typename RowExchange<T>::OutBlock;
  using InBlock = typename RowExchange<T>::InBlock;

  // Sends each block's [copies_of_row][expert_of_copy], and turns what comes into places: the next free row
  // of (expert, source), which gives the order that Route promises, since a block's rows are in the order of
  // tokens.
  void exchange_copies(const CopyCounts& counts, RankDedupRoute& route) {
    const PairTable& rows = route.blocks.rows;
    const PairTable& copies = route.blocks.copies;
    PairTable bytes(placement_.rank_count);
    for (int source = 0; source < placement_.rank_count; ++source) {
      for (int target = 0; target < placement_.rank_count; ++target) {
        bytes.at(source, target) = (rows.at(source, target) + copies.at(source, target)) * kEntryBytes;
      }
    }
    const BlockPlan plan = exchange_.blocks().plan(bytes);
    exchange_.blocks().run(
        plan, bytes, "route",
        [&](int target, std::byte* block) {
          const SentRows& sent = route.mine.sent[static_cast<std::size_t>(target)];
          auto* entry = std::ranges::copy(sent.copies_of_row, reinterpret_cast<std::uint32_t*>(block)).out;
          std::ranges::copy(sent.expert_of_copy, entry);
        },
        [&](std::span<const std::byte* const> blocks) {
          auto next_row = counts.first_rows(exchange_.rank());
          for (std::size_t source = 0; source < blocks.size(); ++source) {
            const int from = static_cast<int>(source);
            const auto* entry = reinterpret_cast<const std::uint32_t*>(blocks[source]);
            Fan& received = route.received.emplace_back();
            received.copies_of_row.assign(entry, entry + rows.at(from, exchange_.rank()));
            entry += rows.at(from, exchange_.rank());
            for (std::int64_t copy = 0; copy < copies.at(from, exchange_.rank()); ++copy) {
              received.place_of_copy.push_back(next_row[entry[copy] * blocks.size() + source]++);
            }
          }
        });
  }

  void add_up(const RankDedupRoute& route, std::span<const InBlock> blocks, T* tokens) {
    const std::size_t row_bytes = exchange_.back().row_bytes();
    exchange_.back().from_wire(
        route.token_count,
        [&](std::int64_t token, std::vector<const std::byte*>& parts) {  // in ascending rank
          for (const Part& part : route.mine.parts.of(token)) {
            parts.push_back(blocks[static_cast<std::size_t>(part.rank)].rows +
                            static_cast<std::size_t>(part.row) * row_bytes);
          }
        },
        tokens);
  }

  void return_values(const RankDedupRoute& route, std::span<const InBlock> blocks, T* copy_values) const {
    std::fill_n(copy_values, route.token_count * route.top_k, T{0});
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
      const T* value = blocks[rank].values;
      for (const std::int64_t copy : route.mine.sent[rank].copies) copy_values[copy] = *value++;
    }
  }

  static constexpr std::int64_t kEntryBytes = sizeof(std::uint32_t);

  ExpertPlacement placement_;
  RowExchange<T> exchange_;
  CountsExchange counts_;
  DispatcherCapabilities capabilities_;
};

}  // namespace

std::unique_ptr<Dispatcher> make_rank_dedup_dispatcher(Channel& channel, const DispatcherOptions& options) {
  return make_by_element<RankDedup>(channel, options);
}

}  // namespace mrb
