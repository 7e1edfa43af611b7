// Each token crosses the network once per node, to the rank there that has the same place as its own (its rail), which
// hands it on to the ranks of that node. Sums come back the same way: over a rank's copies, then over a node's ranks,
// then over nodes.
//
// route() gathers the counts of all ranks (copies by expert, rows by node, rows by rank), then tells each hop's target
// which copies its rows have. forwarding.hpp draws both hops.
#include <algorithm>
#include <utility>

#include "dispatch/by_element.hpp"
#include "dispatch/forwarding.hpp"
#include "dispatch/traffic_model.hpp"

namespace mrb {

namespace {

// The hops share their buffers. The second receives more, and either may send more: what stays on its rank is not sent.
BlockRows expected_blocks(const DispatcherOptions& options) {
  const ExpertPlacement& placement = options.placement;
  const auto tokens = static_cast<double>(options.tokens_max);
  const auto hop = [&](int groups, int peers) {
    return even_blocks(tokens * expected_groups(options, groups), tokens * options.top_k, peers);
  };
  const BlockRows first = hop(placement.node_count(), placement.node_count());
  BlockRows blocks = hop(placement.rank_count, placement.node_size());
  if (first.rows_sent > blocks.rows_sent) {
    blocks.rows_sent = first.rows_sent;
    blocks.copies_sent = first.copies_sent;
  }
  return blocks;
}

}  // namespace

DispatcherCapabilities two_hop_capabilities(const DispatcherOptions& options) {
  const BlockRows blocks = expected_blocks(options);
  return {.name = "two_hop",
          .pattern = "one row per (token, node), then one per rank inside the node",
          .published = "DeepEP internode and v2 hybrid, UCCL-EP high-throughput, Hybrid-EP and NCCL-EP HT, MoRI V1",
          .tree = ReductionTree::by_node,
          .top_k_max = options.placement.expert_count,
          .buffer_bytes = block_buffer_bytes(options, blocks),
          .buffer_formula = block_buffer_formula("tokens x distinct ranks of a token", blocks)};
}

namespace {

struct TwoHopRoute final : Route {
  PairTable copies;  // from the tokens' rank to the experts'
  RowBlocks hop1, hop2;
  TokenRows mine;             // what hop 1 sends
  Forwards forwards;          // what hop 2 sends
  std::vector<Fan> received;  // by forwarder
};

constexpr std::int64_t kEntryBytes = sizeof(std::uint32_t);

template <class T>
class TwoHop final : public Dispatcher {
 public:
  TwoHop(Channel& channel, const DispatcherOptions& options)
      : placement_(options.placement),
        exchange_(channel, options),
        me_(channel.rank()),
        counts_(exchange_.blocks(), placement_.rank_count,
                static_cast<std::size_t>(placement_.expert_count + placement_.node_count() + placement_.rank_count)),
        capabilities_(two_hop_capabilities(options)) {}

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }
  DispatchBytes bytes() const override { return exchange_.bytes(); }

  std::unique_ptr<Route> route(const Routing& routing) override {
    auto route = std::make_unique<TwoHopRoute>();
    route->token_count = routing.token_count();
    route->top_k = routing.top_k;
    auto copies = count_copies(routing, placement_);  // refuses what is no routing
    route->mine = rows_by_node(routing, placement_, me_);
    const auto mine = two_hop_counts(std::move(copies), routing, placement_, me_, route->mine);
    const auto all = counts_.gather(mine);

    const CopyCounts counts(placement_, all, mine.size());
    counts.describe(*route, me_);
    route->copies = counts.by_pair();
    const TwoHops hops = plan_two_hops(all, placement_);
    route->hop2 = exchange_.plan(hops.in_node.rows, hops.in_node.copies);  // first, as it receives more
    route->hop1 = exchange_.plan(hops.to_node.rows, hops.to_node.copies);
    tell_forwarders(*route);
    tell_experts(counts, *route);
    return route;
  }

  void settle(Route&) override {}  // route() has counted

  void dispatch_send(Route& any_route, TokenSide from, Values values) override {
    const auto& route = static_cast<const TwoHopRoute&>(any_route);
    const std::byte* tokens = exchange_.forth().encoded(static_cast<const T*>(from.tokens), route.token_count);
    const auto* copy_values = static_cast<const T*>(from.copy_values);
    const std::size_t row_bytes = exchange_.forth().row_bytes();
    values_ = values;
    exchange_.count_dispatched(route.copies, values);
    exchange_.start_to_experts(route.hop1, values, [&](int target, OutBlock block) {
      const SentRows& sent = route.mine.sent[static_cast<std::size_t>(target)];
      for (const std::int64_t token : sent.token_of_row) {
        block.rows = std::copy_n(tokens + static_cast<std::size_t>(token) * row_bytes, row_bytes, block.rows);
      }
      if (values == Values::none) return;
      for (const std::int64_t copy : sent.copies) *block.values++ = copy_values[copy];
    });
  }

  void dispatch_wait(Route& any_route, RowSide to) override {
    const auto& route = static_cast<const TwoHopRoute&>(any_route);
    exchange_.finish([&](std::span<const InBlock> arrived) {
      exchange_.start_to_experts(route.hop2, values_, [&](int target, OutBlock block) {
        forward(
            route.forwards.to(target), [&](const ForwardedRow& row) { return row_in(arrived, row); },
            exchange_.forth().row_bytes(), block);
      });
    });
    exchange_.finish([&](std::span<const InBlock> blocks) {
      for (std::size_t forwarder = 0; forwarder < blocks.size(); ++forwarder) {
        fan_out(route.received[forwarder], blocks[forwarder], exchange_.forth(), to);
      }
    });
  }

  void combine_send(Route& any_route, RowSide from, Values values) override {
    const auto& route = static_cast<const TwoHopRoute&>(any_route);
    values_ = values;
    exchange_.count_combined(route.copies, values);
    exchange_.start_to_tokens(route.hop2, values, [&](int forwarder, OutBlock block) {
      fan_in(route.received[static_cast<std::size_t>(forwarder)], from, exchange_.back(), block);
    });
  }

  void combine_wait(Route& any_route, TokenSide to) override {
    const auto& route = static_cast<const TwoHopRoute&>(any_route);
    exchange_.finish([&](std::span<const InBlock> sums_of_ranks) {
      exchange_.start_to_tokens(route.hop1, values_, [&](int source, OutBlock block) {
        hand_back<T>(route.forwards, source, sums_of_ranks, exchange_.back(), block);
      });
    });
    exchange_.finish([&](std::span<const InBlock> sums_of_nodes) {
      add_up(route, sums_of_nodes, static_cast<T*>(to.tokens));
      if (values_ == Values::sent) return_values(route, sums_of_nodes, static_cast<T*>(to.copy_values));
    });
  }

 private:
  using OutBlock = typename RowExchange<T>::OutBlock;
  using InBlock = typename RowExchange<T>::InBlock;

  InBlock row_in(std::span<const InBlock> arrived, const ForwardedRow& row) {
    const InBlock& from = arrived[static_cast<std::size_t>(row.source)];
    return {from.rows + static_cast<std::size_t>(row.row) * exchange_.forth().row_bytes(),
            from.values == nullptr ? nullptr : from.values + row.first_copy};
  }

  // Sends entries of 4 bytes: so many for each row, and one for each copy.
  void tell(const RowBlocks& hop, std::int64_t entries_per_row, const BlockExchange::Fill& fill,
            const BlockExchange::Read& read) {
    PairTable bytes(placement_.rank_count);
    for (int source = 0; source < placement_.rank_count; ++source) {
      for (int target = 0; target < placement_.rank_count; ++target) {
        bytes.at(source, target) =
            (entries_per_row * hop.rows.at(source, target) + hop.copies.at(source, target)) * kEntryBytes;
      }
    }
    exchange_.blocks().run(exchange_.blocks().plan(bytes), bytes, "route", fill, read);
  }

  // Each block's [copies of each row][expert of each copy]. Those that come decide what goes on, and to whom.
  void tell_forwarders(TwoHopRoute& route) {
    tell(
        route.hop1, 1,
        [&](int target, std::byte* block) {
          const SentRows& sent = route.mine.sent[static_cast<std::size_t>(target)];
          auto* entry = std::ranges::copy(sent.copies_of_row, reinterpret_cast<std::uint32_t*>(block)).out;
          std::ranges::copy(sent.expert_of_copy, entry);
        },
        [&](std::span<const std::byte* const> blocks) {
          route.forwards = Forwards(placement_, me_);
          for (std::size_t source = 0; source < blocks.size(); ++source) {
            const std::int64_t rows = route.hop1.rows.at(static_cast<int>(source), me_);
            const auto* copies_of_row = reinterpret_cast<const std::uint32_t*>(blocks[source]);
            const auto* experts = copies_of_row + rows;
            for (std::int64_t row = 0; row < rows; ++row) {
              route.forwards.add_row(static_cast<int>(source), {experts, copies_of_row[row]});
              experts += copies_of_row[row];
            }
          }
        });
  }

  void tell_experts(const CopyCounts& counts, TwoHopRoute& route) {
    tell(
        route.hop2, 2,
        [&](int target, std::byte* block) {
          route.forwards.to(target).write_entries(reinterpret_cast<std::uint32_t*>(block));
        },
        [&](std::span<const std::byte* const> blocks) {
          auto next_row = counts.first_rows(me_);
          for (std::size_t forwarder = 0; forwarder < blocks.size(); ++forwarder) {
            route.received.push_back(fan_of_entries(reinterpret_cast<const std::uint32_t*>(blocks[forwarder]),
                                                    route.hop2.rows.at(static_cast<int>(forwarder), me_), next_row,
                                                    placement_.rank_count));
          }
        });
  }

  void add_up(const TwoHopRoute& route, std::span<const InBlock> blocks, T* tokens) {
    RowSums<T>& wire = exchange_.back();
    wire.from_wire(
        route.token_count,
        [&](std::int64_t token, std::vector<const std::byte*>& parts) {
          for (const Part& part : route.mine.parts.of(token)) {
            parts.push_back(blocks[static_cast<std::size_t>(part.rank)].rows +
                            static_cast<std::size_t>(part.row) * wire.row_bytes());
          }
        },
        tokens);
  }

  void return_values(const TwoHopRoute& route, std::span<const InBlock> blocks, T* copy_values) const {
    std::fill_n(copy_values, route.token_count * route.top_k, T{0});
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
      const T* value = blocks[rank].values;
      for (const std::int64_t copy : route.mine.sent[rank].copies) copy_values[copy] = *value++;
    }
  }

  ExpertPlacement placement_;
  RowExchange<T> exchange_;
  int me_;
  CountsExchange counts_;
  DispatcherCapabilities capabilities_;
  Values values_ = Values::none;  // of the operation under way
};

}  // namespace

std::unique_ptr<Dispatcher> make_two_hop_dispatcher(Channel& channel, const DispatcherOptions& options) {
  return make_by_element<TwoHop>(channel, options);
}

}  // namespace mrb
