// A worker thread owns the channel: it exchanges the counts, sends and waits, while the owner packs, computes and
// unpacks.
//
//   fresh dispatch
//     worker   counts to all -> first `prefix_rows` records to each rank, into memory that is that rank's alone
//              -> waits for everybody's counts -> the other records, where the counts say -> waits for all of its own
//     owner    packs meanwhile; settle() waits for the counts; dispatch_wait() puts the rows into their places
//   cached dispatch, combine
//     all sizes are known: one block for each rank
//
//   record   [encoded row][expert of each of its copies][value of each]      fresh: it says itself what it is for
//   block    [encoded rows][values]                                          cached, and on the way back
//
// A row serves one copy (dedup: none), all copies of a token on one rank (dedup: rank), summed there on the way back, or
// all on one node (dedup: node). Those of a node come to the rank of the same place there, whose worker hands them on
// inside the node, as one block for each rank (forwarding.hpp), while its owner computes. On the way back that worker adds
// the sums of the node's ranks.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <utility>

#include "dispatch/by_element.hpp"
#include "dispatch/copy_counts.hpp"
#include "dispatch/one_sided_blocks.hpp"
#include "dispatch/traffic_model.hpp"
#include "dispatch/worker.hpp"

namespace mrb {

namespace {

constexpr std::uint32_t kNoCopy = ~std::uint32_t{0};

std::size_t aligned(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// Copies that one row may be for.
std::size_t copies_of_row_max(const DispatcherOptions& options, int experts) {
  return static_cast<std::size_t>(std::min(options.top_k, experts));
}

std::size_t copies_of_record(const DispatcherOptions& options) {
  const ExpertPlacement& placement = options.placement;
  switch (options.dedup) {
    case Dedup::none:
      return 1;
    case Dedup::rank:
      return copies_of_row_max(options, placement.experts_per_rank());
    case Dedup::node:
      return copies_of_row_max(options, placement.experts_per_rank() * placement.node_size());
  }
  return 0;
}

struct RecordLayout {
  std::size_t experts_offset = 0;
  std::size_t values_offset = 0;
  std::size_t bytes = 0;
};

RecordLayout record_layout(const DispatcherOptions& options, WireType wire, Values values) {
  const std::size_t copies = copies_of_record(options), value = value_bytes(options);
  RecordLayout layout;
  layout.experts_offset = aligned(row_bytes(options, wire), sizeof(std::uint32_t));
  layout.values_offset = aligned(layout.experts_offset + copies * sizeof(std::uint32_t), value);
  layout.bytes = layout.values_offset + (values == Values::sent ? copies * value : 0);
  return layout;
}

// The most that can come to one rank, and that it can send to others, there or back, in rows. A token has at most one copy
// for each expert.
struct RowsMax {
  std::size_t senders = 0;  // ranks that records come from
  std::size_t in = 0, out = 0;
  std::size_t forwarded_in = 0, forwarded_out = 0;  // dedup: node, inside it
};

RowsMax rows_max(const DispatcherOptions& options) {
  const ExpertPlacement& placement = options.placement;
  const auto tokens = static_cast<std::size_t>(options.tokens_max);
  const auto ranks = static_cast<std::size_t>(placement.rank_count);
  if (options.dedup == Dedup::node) {
    const auto nodes = static_cast<std::size_t>(placement.node_count());
    return {.senders = nodes,
            .in = nodes * tokens,
            .out = (nodes - 1) * tokens,
            .forwarded_in = ranks * tokens,
            .forwarded_out = (ranks - nodes) * tokens};
  }
  const std::size_t rows =
      tokens * (options.dedup == Dedup::none ? copies_of_row_max(options, placement.experts_per_rank()) : 1);
  return {.senders = ranks, .in = ranks * rows, .out = (ranks - 1) * rows};
}

struct RowBytes {
  std::size_t record = 0;
  std::size_t forwarded = 0;  // with all values and entries
};

RowBytes row_bytes_max(const DispatcherOptions& options) {
  const std::size_t row = std::max(row_bytes(options, options.dispatch_wire), row_bytes(options, options.combine_wire));
  const std::size_t copies = copies_of_row_max(options, options.placement.experts_per_rank());
  return {.record = std::max(record_layout(options, options.dispatch_wire, Values::sent).bytes,
                             record_layout(options, options.combine_wire, Values::sent).bytes),
          .forwarded = block_row_bytes(row, copies, value_bytes(options))};
}

// What a rank tells all others: copies by expert, then rows by target.
std::size_t counts_of_rank(const DispatcherOptions& options) {
  const ExpertPlacement& placement = options.placement;
  return static_cast<std::size_t>(placement.expert_count + placement.rank_count +
                                  (options.dedup == Dedup::node ? placement.node_count() : 0));
}

OneSided::Sizes sizes_of(const DispatcherOptions& options) {
  const RowsMax rows = rows_max(options);
  const RowBytes bytes = row_bytes_max(options);
  // What fills up each block, and the rows in it.
  const std::size_t lines = static_cast<std::size_t>(options.placement.rank_count) * 2 * AlignedBuffer::kAlignment;
  const std::size_t records_in = rows.senders * static_cast<std::size_t>(options.prefix_rows) + rows.in;
  return {.header_bytes = counts_of_rank(options) * sizeof(std::uint32_t),
          .receive_bytes = std::max(records_in * bytes.record, rows.forwarded_in * bytes.forwarded) + lines,
          .send_bytes = std::max(rows.out * bytes.record, rows.forwarded_out * bytes.forwarded) + lines};
}

std::string formula_of(const DispatcherOptions& options) {
  const RowsMax rows = rows_max(options);
  const RowBytes bytes = row_bytes_max(options);
  const std::string records_in = fmt::format("({} senders x {} prefix rows + {} rows, the most that can come)",
                                             rows.senders, options.prefix_rows, rows.in);
  if (options.dedup != Dedup::node) {
    return fmt::format("(2 x {} + {} rows sent) x {} bytes a record", records_in, rows.out, bytes.record);
  }
  return fmt::format(
      "2 x the larger of {} x {} bytes a record and {} forwarded rows x {} bytes, + the larger of {} rows sent x {} "
      "bytes "
      "and {} forwarded x {} bytes",
      records_in, bytes.record, rows.forwarded_in, bytes.forwarded, rows.out, bytes.record, rows.forwarded_out,
      bytes.forwarded);
}

std::string pattern_of(Dedup dedup) {
  switch (dedup) {
    case Dedup::none:
      return "one row per (token, expert), by a thread that owns the transport";
    case Dedup::rank:
      return "one row per (token, rank), by a thread that owns the transport";
    case Dedup::node:
      return "one row per (token, node), then one per rank inside it, by a thread that owns the transport";
  }
  return "";
}

ReductionTree tree_of(Dedup dedup) {
  if (dedup == Dedup::none) return ReductionTree::by_copy;
  return dedup == Dedup::rank ? ReductionTree::by_rank : ReductionTree::by_node;
}

}  // namespace

DispatcherCapabilities proxy_capabilities(const DispatcherOptions& options) {
  return {.name = "proxy",
          .pattern = pattern_of(options.dedup),
          .published = "pplx-garden; UCCL-EP's CPU proxies",
          .tree = tree_of(options.dedup),
          .top_k_max = options.placement.expert_count,
          .tokens_max = options.tokens_max,
          .buffer_bytes = OneSided::buffer_bytes(sizes_of(options), options.placement.rank_count),
          .buffer_formula = formula_of(options)};
}

namespace {

// What all ranks send, once the counts are there.
struct Counted {
  PairTable copies;  // from the tokens' rank to the experts'
  Hop sent;          // records: to the experts' rank, or to its node
  Hop forwarded;     // dedup: node, inside it
};

struct ProxyRoute final : Route {
  std::vector<std::int64_t> counts;  // what this rank tells the others
  TokenRows mine;                    // what it sends
  Counted counted;                   // empty until settled
  // Known once the first dispatch has been waited for:
  Forwards forwards;          // dedup: node
  std::vector<Fan> received;  // by the rank that rows come from

  bool is_settled() const { return counted.copies.ranks() > 0; }
};

template <class T>
class Proxy final : public Dispatcher {
 public:
  Proxy(Channel& channel, const DispatcherOptions& options)
      : options_(options),
        placement_(options.placement),
        me_(channel.rank()),
        prefix_rows_(options.prefix_rows),
        forth_(options.dispatch_wire, options.hidden, options.phases),
        back_(options.combine_wire, options.hidden, options.phases),
        back_in_node_(options.combine_wire, options.hidden, nullptr),
        memory_(channel, sizes_of(options)),
        blocks_(memory_, me_),
        capabilities_(proxy_capabilities(options)) {}

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }

  DispatchBytes bytes() const override { return wire_bytes(memory_.bytes_put_to(), placement_, me_, logical_); }

  std::unique_ptr<Route> route(const Routing& routing) override {
    auto copies = count_copies(routing, placement_);
    if (routing.token_count() > capabilities_.tokens_max || routing.top_k > options_.top_k) {
      throw Error(
          ErrorKind::config,
          fmt::format("dispatcher 'proxy' has room for {} tokens of one rank in one call, with {} experts each, "
                      "and got {} with {}",
                      capabilities_.tokens_max, options_.top_k, routing.token_count(), routing.top_k),
          fmt::format("set dispatcher.tokens_max to {} or more", routing.token_count()));
    }
    auto route = std::make_unique<ProxyRoute>();
    route->token_count = routing.token_count();
    route->top_k = routing.top_k;
    if (by_node()) {
      route->mine = rows_by_node(routing, placement_, me_);
      route->counts = two_hop_counts(std::move(copies), routing, placement_, me_, route->mine);
      return route;
    }
    route->mine = options_.dedup == Dedup::none ? rows_by_copy(routing, placement_) : rows_by_rank(routing, placement_);
    route->counts = std::move(copies);
    for (const SentRows& sent : route->mine.sent) {
      route->counts.push_back(static_cast<std::int64_t>(sent.token_of_row.size()));
    }
    return route;
  }

  void settle(Route& any_route) override {
    auto& route = static_cast<ProxyRoute&>(any_route);
    if (route.is_settled()) return;
    has_counts_.wait(false);
    if (has_failed_) worker_.wait();  // throws
    const CopyCounts counts(placement_, counts_of_all_, route.counts.size());
    counts.describe(route, me_);
    next_row_ = counts.first_rows(me_);
    route.counted = counted_;
  }

  void dispatch_send(Route& any_route, TokenSide from, Values values) override {
    auto& route = static_cast<ProxyRoute&>(any_route);
    values_ = values;
    is_fresh_ = !route.is_settled();
    count_logical([&](int peer) { return copies_to(route, peer); }, forth_);
    const std::byte* tokens = forth_.encoded(static_cast<const T*>(from.tokens), route.token_count);
    if (is_fresh_) {
      send_records(route, tokens, from);
    } else {
      send_blocks(route, tokens, from);
    }
  }

  void dispatch_wait(Route& any_route, RowSide to) override {
    auto& route = static_cast<ProxyRoute&>(any_route);
    settle(route);
    worker_.wait();
    if (is_fresh_ && !by_node()) {
      route.received.resize(static_cast<std::size_t>(placement_.rank_count));
      for (int source = 0; source < placement_.rank_count; ++source) take_records(source, route, to);
      return;
    }
    for (int from = 0; from < placement_.rank_count; ++from) {
      if (is_fresh_) {
        route.received.push_back(
            fan_of_entries(blocks_.entries_from(from), blocks_.rows_from(from), next_row_, placement_.rank_count));
      }
      fan_out<T>(route.received[static_cast<std::size_t>(from)], blocks_.from(from), forth_, to);
    }
  }

  void combine_send(Route& any_route, RowSide from, Values values) override {
    auto& route = static_cast<ProxyRoute&>(any_route);
    values_ = values;
    count_logical([&](int peer) { return route.counted.copies.at(peer, me_); }, back_);
    const Hop& hop = by_node() ? route.counted.forwarded : route.counted.sent;
    blocks_.begin(by_node() ? kCombineInNode : kCombine, sizes_back(hop));
    fill_and_start(
        [&](int target) { fan_in(route.received[static_cast<std::size_t>(target)], from, back_, blocks_.to(target)); },
        [this, &route] {
          blocks_.exchange();
          if (by_node()) hand_back_sums(route);
        });
  }

  void combine_wait(Route& any_route, TokenSide to) override {
    const auto& route = static_cast<const ProxyRoute&>(any_route);
    worker_.wait();
    const auto blocks = arrived_blocks();
    back_.from_wire(
        route.token_count,
        [&](std::int64_t token, std::vector<const std::byte*>& parts) {
          for (const Part& part : route.mine.parts.of(token)) {
            parts.push_back(blocks[static_cast<std::size_t>(part.rank)].rows +
                            static_cast<std::size_t>(part.row) * back_.row_bytes());
          }
        },
        static_cast<T*>(to.tokens));
    if (values_ == Values::none) return;
    auto* const copy_values = static_cast<T*>(to.copy_values);
    std::fill_n(copy_values, route.token_count * route.top_k, T{0});
    for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
      const T* value = blocks[rank].values;
      for (const std::int64_t copy : route.mine.sent[rank].copies) copy_values[copy] = *value++;
    }
  }

 private:
  using InBlock = RowBlock<const std::byte, const T>;

  static constexpr std::string_view kDispatch = "dispatch", kDispatchInNode = "dispatch inside the node";
  static constexpr std::string_view kCombine = "combine", kCombineInNode = "combine inside the node";

  bool by_node() const { return options_.dedup == Dedup::node; }

  // ---- Fresh: records

  void send_records(ProxyRoute& route, const std::byte* tokens, TokenSide from) {
    record_ = record_layout(options_, options_.dispatch_wire, values_);
    memory_.begin(kDispatch, route.counts.size() * sizeof(std::uint32_t));
    for (int peer = 0; peer < placement_.rank_count; ++peer) {
      std::ranges::transform(route.counts, reinterpret_cast<std::uint32_t*>(memory_.header_to(peer)),
                             [](std::int64_t count) { return static_cast<std::uint32_t>(count); });
    }
    first_record_.clear();
    std::size_t records = 0;
    for (int peer = 0; peer < placement_.rank_count; ++peer) {
      first_record_.push_back(records);
      if (peer != me_) records += static_cast<std::size_t>(rows_to(route, peer));
    }
    has_counts_ = has_failed_ = is_packed_ = false;
    worker_.start([this, &route] { run_fresh(route); });
    const auto pack_for = [&](int peer, std::byte* record) {
      pack_records(route.mine.sent[static_cast<std::size_t>(peer)], tokens, from, record);
    };
    std::byte* const own_records = memory_.received_data() + own_offset();
    if (by_node()) pack_for(me_, own_records);  // the worker hands them on
    for_each_peer([&](int peer) { pack_for(peer, memory_.send_data() + offset_to(peer, 0)); });
    is_packed_ = true;
    is_packed_.notify_all();
    if (!by_node()) pack_for(me_, own_records);
  }

  // On the worker's thread.
  void run_fresh(ProxyRoute& route) {
    try {
      for_each_peer([&](int peer) { memory_.put_header(peer); });
      is_packed_.wait(false);
      for_each_peer([&](int peer) {
        const std::int64_t rows = std::min(prefix_rows_, rows_to(route, peer));
        memory_.put_data(peer, offset_to(peer, 0), prefix_offset(me_), static_cast<std::size_t>(rows) * record_.bytes);
      });
      memory_.wait_headers();
      read_counts(route);
      has_counts_ = true;
      has_counts_.notify_all();
      for_each_peer([&](int peer) {
        const std::int64_t rows = std::max<std::int64_t>(0, rows_to(route, peer) - prefix_rows_);
        memory_.put_data(peer, offset_to(peer, prefix_rows_), overflow_offset(me_, peer),
                         static_cast<std::size_t>(rows) * record_.bytes);
      });
      std::vector<std::size_t> puts;
      for (int source = 0; source < placement_.rank_count; ++source) {
        const std::int64_t rows = counted_.sent.rows.at(source, me_), first = std::min(rows, prefix_rows_);
        puts.push_back(memory_.puts_of(static_cast<std::size_t>(first) * record_.bytes) +
                       memory_.puts_of(static_cast<std::size_t>(rows - first) * record_.bytes));
      }
      memory_.wait_data(puts);
      memory_.wait_sent();
      if (by_node()) forward_records(route);
    } catch (...) {
      has_failed_ = true;
      has_counts_ = true;
      has_counts_.notify_all();
      throw;
    }
  }

  // What the owner, too, needs of the headers, which the next operation takes away.
  void read_counts(const ProxyRoute& route) {
    counts_of_all_.clear();
    for (int source = 0; source < placement_.rank_count; ++source) {
      const std::byte* const header = source == me_ ? memory_.header_to(me_) : memory_.header_from(source);
      const auto* const counts = reinterpret_cast<const std::uint32_t*>(header);
      counts_of_all_.insert(counts_of_all_.end(), counts, counts + route.counts.size());
    }
    const std::size_t stride = route.counts.size();
    counted_.copies = CopyCounts(placement_, counts_of_all_, stride).by_pair();
    if (by_node()) {
      auto hops = plan_two_hops(counts_of_all_, placement_);
      counted_.sent = std::move(hops.to_node);
      counted_.forwarded = std::move(hops.in_node);
      return;
    }
    counted_.sent = {PairTable(placement_.rank_count), counted_.copies};
    for (int source = 0; source < placement_.rank_count; ++source) {
      const auto* const rows = &counts_of_all_[static_cast<std::size_t>(source) * stride +
                                               static_cast<std::size_t>(placement_.expert_count)];
      for (int target = 0; target < placement_.rank_count; ++target) {
        counted_.sent.rows.at(source, target) = rows[target];
      }
    }
  }

  void pack_records(const SentRows& sent, const std::byte* tokens, TokenSide from, std::byte* record) {
    const std::size_t copies_max = copies_of_record(options_);
    const std::int64_t* copy = sent.copies.data();
    const std::uint32_t* expert = sent.expert_of_copy.data();
    for (std::size_t row = 0; row < sent.token_of_row.size(); ++row, record += record_.bytes) {
      std::memcpy(record, tokens + static_cast<std::size_t>(sent.token_of_row[row]) * forth_.row_bytes(),
                  forth_.row_bytes());
      auto* experts = reinterpret_cast<std::uint32_t*>(record + record_.experts_offset);
      auto* values = reinterpret_cast<T*>(record + record_.values_offset);
      for (std::size_t i = 0; i < copies_max; ++i) {
        const bool is_used = i < sent.copies_of_row[row];
        experts[i] = is_used ? *expert++ : kNoCopy;
        if (values_ == Values::sent) values[i] = is_used ? static_cast<const T*>(from.copy_values)[*copy++] : T{0};
      }
    }
  }

  // What came from one source, in a half of the memory.
  const std::byte* record_at(const std::byte* received, int source, std::int64_t row) const {
    if (source == me_) return received + own_offset() + static_cast<std::size_t>(row) * record_.bytes;
    return received + (row < prefix_rows_ ? prefix_offset(source) + static_cast<std::size_t>(row) * record_.bytes
                                          : overflow_offset(source, me_) +
                                                static_cast<std::size_t>(row - prefix_rows_) * record_.bytes);
  }

  std::span<const std::uint32_t> experts_in(const std::byte* record) const {
    const auto* const experts = reinterpret_cast<const std::uint32_t*>(record + record_.experts_offset);
    return {experts, std::find(experts, experts + copies_of_record(options_), kNoCopy)};
  }

  void take_records(int source, ProxyRoute& route, RowSide to) {
    Fan& fan = route.received[static_cast<std::size_t>(source)];
    const auto ranks = static_cast<std::size_t>(placement_.rank_count);
    std::vector<const std::byte*> records;
    for (std::int64_t row = 0; row < counted_.sent.rows.at(source, me_); ++row) {
      const std::byte* const record = records.emplace_back(record_at(memory_.received_data(), source, row));
      const auto experts = experts_in(record);
      fan.copies_of_row.push_back(static_cast<std::uint32_t>(experts.size()));
      const auto* value = reinterpret_cast<const T*>(record + record_.values_offset);
      for (const std::uint32_t expert : experts) {
        const std::int64_t place = next_row_[expert * ranks + static_cast<std::size_t>(source)]++;
        fan.place_of_copy.push_back(place);
        if (values_ == Values::sent) static_cast<T*>(to.row_values)[place] = *value++;
      }
    }
    fan_out_rows<T>(
        fan, [&](std::size_t row) { return records[row]; }, forth_, static_cast<T*>(to.rows));
  }

  static std::int64_t rows_to(const ProxyRoute& route, int peer) {
    return static_cast<std::int64_t>(route.mine.sent[static_cast<std::size_t>(peer)].token_of_row.size());
  }

  std::size_t offset_to(int peer, std::int64_t row) const {
    return (first_record_[static_cast<std::size_t>(peer)] + static_cast<std::size_t>(row)) * record_.bytes;
  }

  // In a half: the prefixes of all senders, this rank's own records, then what other sources have beyond their prefixes.
  std::size_t prefix_offset(int source) const {
    const int sender = by_node() ? placement_.node_of(source) : source;
    return static_cast<std::size_t>(sender * prefix_rows_) * record_.bytes;
  }

  std::size_t own_offset() const {
    const int senders = by_node() ? placement_.node_count() : placement_.rank_count;
    return static_cast<std::size_t>(senders * prefix_rows_) * record_.bytes;
  }

  std::size_t overflow_offset(int source, int target) const {
    std::int64_t rows = counted_.sent.rows.at(target, target);
    for (int s = 0; s < source; ++s) {
      if (s != target) rows += std::max<std::int64_t>(0, counted_.sent.rows.at(s, target) - prefix_rows_);
    }
    return own_offset() + static_cast<std::size_t>(rows) * record_.bytes;
  }

  // ---- Cached, and the way back: blocks

  BlockSizes sizes_forth(const Hop& hop) const { return {hop.rows, hop.copies, forth_.row_bytes(), values_, false}; }
  BlockSizes sizes_back(const Hop& hop) const {
    return {transposed(hop.rows), transposed(hop.copies), back_.row_bytes(), values_, false};
  }

  void send_blocks(ProxyRoute& route, const std::byte* tokens, TokenSide from) {
    blocks_.begin(kDispatch, sizes_forth(route.counted.sent));
    fill_and_start(
        [&](int target) {
          pack_rows(route.mine.sent[static_cast<std::size_t>(target)], tokens, from, blocks_.to(target));
        },
        [this, &route] {
          blocks_.exchange();
          if (by_node()) forward_blocks(route);
        });
  }

  void pack_rows(const SentRows& sent, const std::byte* tokens, TokenSide from, RowBlock<std::byte, T> block) {
    for (const std::int64_t token : sent.token_of_row) {
      block.rows =
          std::copy_n(tokens + static_cast<std::size_t>(token) * forth_.row_bytes(), forth_.row_bytes(), block.rows);
    }
    if (block.values == nullptr) return;
    for (const std::int64_t copy : sent.copies) *block.values++ = static_cast<const T*>(from.copy_values)[copy];
  }

  std::vector<InBlock> arrived_blocks() {
    std::vector<InBlock> blocks;
    for (int source = 0; source < placement_.rank_count; ++source) blocks.push_back(blocks_.from(source));
    return blocks;
  }

  // ---- Inside the node, on the worker's thread. What arrived stays where it is while the next operation fills the other
  // half.

  void forward_records(ProxyRoute& route) {
    const std::byte* const received = memory_.received_data();
    route.forwards = Forwards(placement_, me_);
    for (int source = 0; source < placement_.rank_count; ++source) {
      for (std::int64_t row = 0; row < counted_.sent.rows.at(source, me_); ++row) {
        route.forwards.add_row(source, experts_in(record_at(received, source, row)));
      }
    }
    BlockSizes sizes = sizes_forth(counted_.forwarded);
    sizes.has_entries = true;
    blocks_.begin(kDispatchInNode, sizes);
    for (int target = 0; target < placement_.rank_count; ++target) {
      const ForwardBlock& forwarded = route.forwards.to(target);
      if (forwarded.rows.empty()) continue;
      forward<T>(
          forwarded,
          [&](const ForwardedRow& row) {
            const std::byte* const record = record_at(received, row.source, row.row);
            return InBlock{record, reinterpret_cast<const T*>(record + record_.values_offset)};
          },
          forth_.row_bytes(), blocks_.to(target));
      forwarded.write_entries(blocks_.entries_to(target));
    }
    blocks_.exchange();
  }

  void forward_blocks(const ProxyRoute& route) {
    const auto arrived = arrived_blocks();
    blocks_.begin(kDispatchInNode, sizes_forth(route.counted.forwarded));
    for (int target = 0; target < placement_.rank_count; ++target) {
      forward<T>(
          route.forwards.to(target),
          [&](const ForwardedRow& row) {
            const InBlock& from = arrived[static_cast<std::size_t>(row.source)];
            return InBlock{from.rows + static_cast<std::size_t>(row.row) * forth_.row_bytes(),
                           from.values == nullptr ? nullptr : from.values + row.first_copy};
          },
          forth_.row_bytes(), blocks_.to(target));
    }
    blocks_.exchange();
  }

  void hand_back_sums(const ProxyRoute& route) {
    const auto sums_of_ranks = arrived_blocks();
    blocks_.begin(kCombine, sizes_back(route.counted.sent));
    for (int source = 0; source < placement_.rank_count; ++source) {
      hand_back<T>(route.forwards, source, sums_of_ranks, back_in_node_, blocks_.to(source));
    }
    blocks_.exchange();
  }

  // ---- All

  // Round the ring from the next rank on, so that the ranks do not all write to the same one.
  template <class Visit>
  void for_each_peer(const Visit& visit) const {
    for (int step = 1; step < placement_.rank_count; ++step) visit((me_ + step) % placement_.rank_count);
  }

  // The block that stays here is filled while the others travel, unless the worker reads it too.
  template <class Fill>
  void fill_and_start(const Fill& fill, std::function<void()> job) {
    if (by_node()) fill(me_);
    for_each_peer(fill);
    worker_.start(std::move(job));
    if (!by_node()) fill(me_);
  }

  // This rank's copies for the experts of another.
  std::int64_t copies_to(const ProxyRoute& route, int peer) const {
    const auto first = route.counts.begin() + placement_.first_expert(peer);
    return std::accumulate(first, first + placement_.experts_per_rank(), std::int64_t{0});
  }

  template <class CopiesOf>
  void count_logical(const CopiesOf& copies_of, const RowSums<T>& wire) {
    const std::size_t copy_bytes = wire.row_bytes() + (values_ == Values::sent ? sizeof(T) : 0);
    for_each_peer([&](int peer) { logical_ += static_cast<std::uint64_t>(copies_of(peer)) * copy_bytes; });
  }

  DispatcherOptions options_;
  ExpertPlacement placement_;
  int me_;
  std::int64_t prefix_rows_;
  RowSums<T> forth_, back_;
  RowSums<T> back_in_node_;  // the worker's; its casts are the owner's waiting
  OneSided memory_;
  OneSidedBlocks<T> blocks_;
  DispatcherCapabilities capabilities_;
  std::uint64_t logical_ = 0;

  // Of the operation under way. The worker writes the counts before has_counts_.
  Values values_ = Values::none;
  bool is_fresh_ = false;
  RecordLayout record_;
  std::vector<std::size_t> first_record_;  // by target, in the send memory
  std::vector<std::int64_t> counts_of_all_;
  Counted counted_;
  std::vector<std::int64_t> next_row_;  // of (local expert, source)
  std::atomic<bool> is_packed_ = false, has_counts_ = false, has_failed_ = false;

  Worker worker_;  // last: it uses the others
};

}  // namespace

std::unique_ptr<Dispatcher> make_proxy_dispatcher(Channel& channel, const DispatcherOptions& options) {
  return make_by_element<Proxy>(channel, options);
}

}  // namespace mrb
