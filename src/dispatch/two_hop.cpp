// Each token crosses the network once per node, to the rank there that has the same place as its own (its rail), which
// hands it on to the ranks of that node. Sums come back the same way: over a rank's copies, then over a node's ranks,
// then over nodes.
//
// Two nodes of two ranks, one expert each. A token of rank 0 for experts 1, 2 and 3:
//
//   hop 1    0 -> 0 (its own node)    one row, for expert 1
//            0 -> 2 (rail peer)       one row, for experts 2 and 3
//   hop 2    0 -> 1                   one row
//            2 -> 2, 2 -> 3           one row each
//
// route() gathers the counts of all ranks (copies by expert, rows by node, rows by rank), then tells each hop's target
// which copies its rows have. The rows of a block are in the order of (source, token), on both hops.
#include <algorithm>
#include <numeric>
#include <utility>

#include "dispatch/by_element.hpp"
#include "dispatch/fan.hpp"
#include "dispatch/traffic_model.hpp"

namespace mrb {

DispatcherCapabilities two_hop_capabilities(const DispatcherOptions& options) {
  const double tokens = static_cast<double>(options.tokens_max);
  const double rows = tokens * expected_groups(options, options.placement.rank_count);  // of hop 2, which has the more
  return {.name = "two_hop",
          .pattern = "one row per (token, node), then one per rank inside the node",
          .published = "DeepEP internode and v2 hybrid, UCCL-EP high-throughput, Hybrid-EP and NCCL-EP HT, MoRI V1",
          .tree = ReductionTree::by_node,
          .top_k_max = options.placement.expert_count,
          .buffer_bytes = block_buffer_bytes(options, rows, tokens * options.top_k),
          .buffer_formula = block_buffer_formula("tokens x distinct ranks of a token", rows)};
}

namespace {

// One row of one block, as the rank that filled the block sees it.
struct BlockRow {
  int target = 0;
  std::int64_t row = 0;
};

// What hop 1 sends to one node.
struct NodeBlock {
  std::vector<std::int64_t> token_of_row;
  std::vector<std::uint32_t> copies_of_row;
  std::vector<std::int64_t> copies;  // t * top_k + k, of all rows, one row after the other
  std::vector<std::uint32_t> expert_of_copy;
};

// What hop 2 sends to one rank of this node.
struct ForwardBlock {
  std::vector<std::uint32_t> source_of_row;
  std::vector<std::int64_t> hop1_row;  // in the block of its source
  std::vector<std::uint32_t> copies_of_row;
  std::vector<std::int64_t> hop1_copy;        // whose value is handed on, in the block of its row's source
  std::vector<std::uint32_t> expert_of_copy;  // local to the target
};

struct TwoHopRoute final : Route {
  PairTable copies;  // from the tokens' rank to the experts'
  RowBlocks hop1, hop2;
  std::vector<NodeBlock> sent;                                  // by node
  std::vector<std::vector<BlockRow>> rows_of_token;             // by token: what hop 1 sent, in ascending node
  std::vector<ForwardBlock> forwarded;                          // by rank; empty for those of other nodes
  std::vector<std::vector<std::vector<BlockRow>>> forwards_of;  // by source and row of its block, in ascending rank
  std::vector<Fan> received;                                    // by forwarder
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
    auto mine = count_copies(routing, placement_);
    fill_node_blocks(routing, *route);
    for (const NodeBlock& block : route->sent) mine.push_back(static_cast<std::int64_t>(block.token_of_row.size()));
    const auto rows_by_rank = count_rows_by_rank(routing);
    mine.insert(mine.end(), rows_by_rank.begin(), rows_by_rank.end());

    const auto all = counts_.gather(mine);
    const CopyCounts counts(placement_, all, mine.size());
    counts.describe(*route, me_);
    route->copies = counts.by_pair();
    plan_hops(all, mine.size(), *route);
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
      const NodeBlock* sent = node_block(route, target);
      if (sent == nullptr) return;
      for (const std::int64_t token : sent->token_of_row) {
        block.rows = std::copy_n(tokens + static_cast<std::size_t>(token) * row_bytes, row_bytes, block.rows);
      }
      if (values == Values::none) return;
      for (const std::int64_t copy : sent->copies) *block.values++ = copy_values[copy];
    });
  }

  void dispatch_wait(Route& any_route, RowSide to) override {
    const auto& route = static_cast<const TwoHopRoute&>(any_route);
    exchange_.finish([&](std::span<const InBlock> arrived) {
      exchange_.start_to_experts(route.hop2, values_, [&](int target, OutBlock block) {
        forward(route.forwarded[static_cast<std::size_t>(target)], arrived, block);
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
      exchange_.start_to_tokens(route.hop1, values_,
                                [&](int source, OutBlock block) { hand_back(route, source, sums_of_ranks, block); });
    });
    exchange_.finish([&](std::span<const InBlock> sums_of_nodes) {
      add_up(route, sums_of_nodes, static_cast<T*>(to.tokens));
      if (values_ == Values::sent) return_values(route, sums_of_nodes, static_cast<T*>(to.copy_values));
    });
  }

 private:
  using OutBlock = typename RowExchange<T>::OutBlock;
  using InBlock = typename RowExchange<T>::InBlock;

  // What hop 1 sends to `target`; null for a rank that is not on this rank's rail.
  const NodeBlock* node_block(const TwoHopRoute& route, int target) const {
    const int node = placement_.node_of(target);
    return placement_.rail_peer(me_, node) == target ? &route.sent[static_cast<std::size_t>(node)] : nullptr;
  }

  void fill_node_blocks(const Routing& routing, TwoHopRoute& route) const {
    route.sent.resize(static_cast<std::size_t>(placement_.node_count()));
    for (std::int64_t token = 0; token < route.token_count; ++token) {
      auto& rows = route.rows_of_token.emplace_back();
      for (std::int64_t copy = token * route.top_k; copy < (token + 1) * route.top_k; ++copy) {
        const std::int32_t expert = routing.expert_ids[static_cast<std::size_t>(copy)];
        if (expert < 0) continue;
        const int node = placement_.node_of(placement_.rank_of(expert));
        NodeBlock& block = route.sent[static_cast<std::size_t>(node)];
        if (block.token_of_row.empty() || block.token_of_row.back() != token) {
          rows.push_back({placement_.rail_peer(me_, node), static_cast<std::int64_t>(block.token_of_row.size())});
          block.token_of_row.push_back(token);
          block.copies_of_row.push_back(0);
        }
        ++block.copies_of_row.back();
        block.copies.push_back(copy);
        block.expert_of_copy.push_back(static_cast<std::uint32_t>(expert));
      }
      std::ranges::sort(rows, {}, &BlockRow::target);
    }
  }

  // Tokens with a copy on each rank: rows of hop 2.
  std::vector<std::int64_t> count_rows_by_rank(const Routing& routing) const {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(placement_.rank_count));
    std::vector<std::int64_t> last_token(rows.size(), -1);
    for (std::size_t copy = 0; copy < routing.expert_ids.size(); ++copy) {
      if (routing.expert_ids[copy] < 0) continue;
      const auto target = static_cast<std::size_t>(placement_.rank_of(routing.expert_ids[copy]));
      const std::int64_t token = static_cast<std::int64_t>(copy) / routing.top_k;
      if (std::exchange(last_token[target], token) != token) ++rows[target];
    }
    return rows;
  }

  // `all` has each rank's copies by expert, rows by node and rows by rank, `stride` after the rank before.
  void plan_hops(std::span<const std::int64_t> all, std::size_t stride, TwoHopRoute& route) {
    PairTable rows1(placement_.rank_count), copies1 = rows1, rows2 = rows1, copies2 = rows1;
    for (int source = 0; source < placement_.rank_count; ++source) {
      const auto list = all.subspan(static_cast<std::size_t>(source) * stride, stride);
      const auto rows_by_node = list.subspan(static_cast<std::size_t>(placement_.expert_count));
      const auto rows_by_rank = rows_by_node.subspan(static_cast<std::size_t>(placement_.node_count()));
      for (int target = 0; target < placement_.rank_count; ++target) {
        const int node = placement_.node_of(target);
        const int forwarder = placement_.rail_peer(source, node);
        rows1.at(source, forwarder) = rows_by_node[static_cast<std::size_t>(node)];
        copies1.at(source, forwarder) += route.copies.at(source, target);
        rows2.at(forwarder, target) += rows_by_rank[static_cast<std::size_t>(target)];
        copies2.at(forwarder, target) += route.copies.at(source, target);
      }
    }
    route.hop1 = exchange_.plan(rows1, copies1);
    route.hop2 = exchange_.plan(rows2, copies2);
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

  // Each block's [copies_of_row][expert_of_copy]. Those that come decide what this rank hands on, and to whom.
  void tell_forwarders(TwoHopRoute& route) {
    tell(
        route.hop1, 1,
        [&](int target, std::byte* block) {
          const NodeBlock* sent = node_block(route, target);
          if (sent == nullptr) return;
          auto* entry = std::ranges::copy(sent->copies_of_row, reinterpret_cast<std::uint32_t*>(block)).out;
          std::ranges::copy(sent->expert_of_copy, entry);
        },
        [&](std::span<const std::byte* const> blocks) {
          route.forwarded.resize(blocks.size());
          for (std::size_t source = 0; source < blocks.size(); ++source) {
            const auto rows = static_cast<std::size_t>(route.hop1.rows.at(static_cast<int>(source), me_));
            const auto* copies_of_row = reinterpret_cast<const std::uint32_t*>(blocks[source]);
            route.forwards_of.emplace_back(rows);
            plan_forwards(static_cast<std::uint32_t>(source), {copies_of_row, rows}, copies_of_row + rows, route);
          }
        });
  }

  void plan_forwards(std::uint32_t source, std::span<const std::uint32_t> copies_of_row, const std::uint32_t* expert,
                     TwoHopRoute& route) const {
    std::int64_t copy = 0;
    for (std::size_t row = 0; row < copies_of_row.size(); ++row) {
      auto& forwards = route.forwards_of[source][row];
      for (const std::int64_t end = copy + copies_of_row[row]; copy < end; ++copy) {
        const auto expert_id = static_cast<int>(expert[copy]);
        const int target = placement_.rank_of(expert_id);
        ForwardBlock& block = route.forwarded[static_cast<std::size_t>(target)];
        const auto known = std::ranges::find(forwards, target, &BlockRow::target);
        if (known == forwards.end()) {
          forwards.push_back({target, static_cast<std::int64_t>(block.hop1_row.size())});
          block.source_of_row.push_back(source);
          block.hop1_row.push_back(static_cast<std::int64_t>(row));
          block.copies_of_row.push_back(0);
        }
        ++block.copies_of_row.back();
        block.hop1_copy.push_back(copy);
        block.expert_of_copy.push_back(static_cast<std::uint32_t>(expert_id - placement_.first_expert(target)));
      }
      std::ranges::sort(forwards, {}, &BlockRow::target);
    }
  }

  // Each block's [source_of_row][copies_of_row][expert_of_copy]. Those that come become places: the next free row of
  // (expert, source), which gives the order that Route promises, since a source's rows are in the order of tokens.
  void tell_experts(const CopyCounts& counts, TwoHopRoute& route) {
    tell(
        route.hop2, 2,
        [&](int target, std::byte* block) {
          const ForwardBlock& sent = route.forwarded[static_cast<std::size_t>(target)];
          auto* entry = std::ranges::copy(sent.source_of_row, reinterpret_cast<std::uint32_t*>(block)).out;
          entry = std::ranges::copy(sent.copies_of_row, entry).out;
          std::ranges::copy(sent.expert_of_copy, entry);
        },
        [&](std::span<const std::byte* const> blocks) {
          auto next_row = counts.first_rows(me_);
          for (std::size_t forwarder = 0; forwarder < blocks.size(); ++forwarder) {
            const auto rows = static_cast<std::size_t>(route.hop2.rows.at(static_cast<int>(forwarder), me_));
            const auto* source_of_row = reinterpret_cast<const std::uint32_t*>(blocks[forwarder]);
            const auto* copies_of_row = source_of_row + rows;
            const auto* expert = copies_of_row + rows;
            Fan& fan = route.received.emplace_back();
            fan.copies_of_row.assign(copies_of_row, copies_of_row + rows);
            for (std::size_t row = 0; row < rows; ++row) {
              for (std::uint32_t copy = 0; copy < copies_of_row[row]; ++copy) {
                fan.place_of_copy.push_back(next_row[*expert++ * blocks.size() + source_of_row[row]]++);
              }
            }
          }
        });
  }

  void forward(const ForwardBlock& forwarded, std::span<const InBlock> arrived, OutBlock block) {
    const std::size_t row_bytes = exchange_.forth().row_bytes();
    const std::int64_t* copy = forwarded.hop1_copy.data();
    for (std::size_t row = 0; row < forwarded.hop1_row.size(); ++row) {
      const InBlock& from = arrived[forwarded.source_of_row[row]];
      block.rows =
          std::copy_n(from.rows + static_cast<std::size_t>(forwarded.hop1_row[row]) * row_bytes, row_bytes, block.rows);
      if (values_ == Values::none) continue;
      for (std::uint32_t i = 0; i < forwarded.copies_of_row[row]; ++i) *block.values++ = from.values[*copy++];
    }
  }

  // The sums of this node's ranks become one sum for each row that came from `source`.
  void hand_back(const TwoHopRoute& route, int source, std::span<const InBlock> sums_of_ranks, OutBlock block) {
    RowSums<T>& wire = exchange_.back();
    const auto& forwards_of_row = route.forwards_of[static_cast<std::size_t>(source)];
    wire.through_wire(
        static_cast<std::int64_t>(forwards_of_row.size()),
        [&](std::int64_t row, std::vector<const std::byte*>& parts) {
          for (const BlockRow& forward : forwards_of_row[static_cast<std::size_t>(row)]) {
            parts.push_back(sums_of_ranks[static_cast<std::size_t>(forward.target)].rows +
                            static_cast<std::size_t>(forward.row) * wire.row_bytes());
          }
        },
        block.rows);
    if (values_ == Values::none) return;
    for (std::size_t target = 0; target < route.forwarded.size(); ++target) {
      const ForwardBlock& forwarded = route.forwarded[target];
      const T* value = sums_of_ranks[target].values;
      const std::int64_t* copy = forwarded.hop1_copy.data();
      for (std::size_t row = 0; row < forwarded.hop1_row.size(); ++row) {
        const bool is_here = forwarded.source_of_row[row] == static_cast<std::uint32_t>(source);
        for (std::uint32_t i = 0; i < forwarded.copies_of_row[row]; ++i, ++value, ++copy) {
          if (is_here) block.values[*copy] = *value;
        }
      }
    }
  }

  void add_up(const TwoHopRoute& route, std::span<const InBlock> blocks, T* tokens) {
    RowSums<T>& wire = exchange_.back();
    wire.from_wire(
        route.token_count,
        [&](std::int64_t token, std::vector<const std::byte*>& parts) {
          for (const BlockRow& row : route.rows_of_token[static_cast<std::size_t>(token)]) {
            parts.push_back(blocks[static_cast<std::size_t>(row.target)].rows +
                            static_cast<std::size_t>(row.row) * wire.row_bytes());
          }
        },
        tokens);
  }

  void return_values(const TwoHopRoute& route, std::span<const InBlock> blocks, T* copy_values) const {
    std::fill_n(copy_values, route.token_count * route.top_k, T{0});
    for (int node = 0; node < placement_.node_count(); ++node) {
      const T* value = blocks[static_cast<std::size_t>(placement_.rail_peer(me_, node))].values;
      for (const std::int64_t copy : route.sent[static_cast<std::size_t>(node)].copies) copy_values[copy] = *value++;
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
