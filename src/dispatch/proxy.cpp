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
// A row serves one copy (dedup: none) or all copies of a token on one rank (dedup: rank), summed there on the way back.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "dispatch/by_element.hpp"
#include "dispatch/fan.hpp"
#include "dispatch/one_sided.hpp"
#include "dispatch/sent_rows.hpp"
#include "dispatch/traffic_model.hpp"
#include "dispatch/worker.hpp"

namespace mrb {

namespace {

constexpr std::size_t kLine = AlignedBuffer::kAlignment;
constexpr std::uint32_t kNoCopy = ~std::uint32_t{0};
constexpr std::size_t kBareHeaderBytes = 8;  // of one whose arrival is all it says

std::size_t aligned(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

// Copies that one record may be for.
std::size_t copies_of_record(const DispatcherOptions& options) {
  if (options.dedup == Dedup::none) return 1;
  return static_cast<std::size_t>(std::min(options.top_k, options.placement.experts_per_rank()));
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

// The most rows that can come to one rank: a token has at most one copy for each expert.
std::size_t rows_max(const DispatcherOptions& options) {
  const std::size_t of_token =
      options.dedup == Dedup::none
          ? static_cast<std::size_t>(std::min(options.top_k, options.placement.experts_per_rank()))
          : 1;
  return static_cast<std::size_t>(options.placement.rank_count) * static_cast<std::size_t>(options.tokens_max) *
         of_token;
}

std::size_t record_bytes_max(const DispatcherOptions& options) {
  return std::max(record_layout(options, options.dispatch_wire, Values::sent).bytes,
                  record_layout(options, options.combine_wire, Values::sent).bytes);
}

OneSided::Sizes sizes_of(const DispatcherOptions& options) {
  const auto ranks = static_cast<std::size_t>(options.placement.rank_count);
  const std::size_t rows = rows_max(options), record = record_bytes_max(options);
  const std::size_t prefixes = ranks * static_cast<std::size_t>(options.prefix_rows);
  return {.header_bytes = (static_cast<std::size_t>(options.placement.expert_count) + ranks) * sizeof(std::uint32_t),
          .receive_bytes = (prefixes + rows) * record + ranks * kLine,
          .send_bytes = rows * record + ranks * kLine};
}

}  // namespace

DispatcherCapabilities proxy_capabilities(const DispatcherOptions& options) {
  const bool by_rank = options.dedup == Dedup::rank;
  return {.name = "proxy",
          .pattern = by_rank ? "one row per (token, rank), by a thread that owns the transport"
                             : "one row per (token, expert), by a thread that owns the transport",
          .published = "pplx-garden; UCCL-EP's CPU proxies",
          .tree = by_rank ? ReductionTree::by_rank : ReductionTree::by_copy,
          .top_k_max = options.placement.expert_count,
          .tokens_max = options.tokens_max,
          .buffer_bytes = OneSided::buffer_bytes(sizes_of(options), options.placement.rank_count),
          .buffer_formula = fmt::format("(3 x {} rows, the most that can come, + 2 x {} ranks x {} prefix rows) x {} "
                                        "bytes a record",
                                        rows_max(options), options.placement.rank_count, options.prefix_rows,
                                        record_bytes_max(options))};
}

namespace {

struct ProxyRoute final : Route {
  std::vector<std::uint32_t> counts;  // this rank's: copies by expert, then rows by rank
  TokenRows mine;                     // what this rank sends
  PairTable rows, copies;             // of all ranks; empty until settled
  std::vector<Fan> received;          // by source; known once the first dispatch has been waited for

  bool is_settled() const { return rows.ranks() > 0; }
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
        memory_(channel, sizes_of(options)),
        capabilities_(proxy_capabilities(options)) {}

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }

  DispatchBytes bytes() const override { return wire_bytes(memory_.bytes_put_to(), placement_, me_, logical_); }

  std::unique_ptr<Route> route(const Routing& routing) override {
    const auto copies = count_copies(routing, placement_);
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
    for (const std::int64_t count : copies) {
      route->counts.push_back(static_cast<std::uint32_t>(count));
    }
    route->mine = options_.dedup == Dedup::none ? rows_by_copy(routing, placement_) : rows_by_rank(routing, placement_);
    for (const SentRows& sent : route->mine.sent) {
      route->counts.push_back(static_cast<std::uint32_t>(sent.token_of_row.size()));
    }
    return route;
  }

  void settle(Route& any_route) override {
    auto& route = static_cast<ProxyRoute&>(any_route);
    if (route.is_settled()) return;
    has_counts_.wait(false);
    if (has_failed_) worker_.wait();  // throws
    const std::size_t stride = route.counts.size();
    std::vector<std::int64_t> all;
    for (int source = 0; source < placement_.rank_count; ++source) {
      for (std::size_t i = 0; i < stride; ++i) all.push_back(count_of(source, i));
    }
    const CopyCounts counts(placement_, all, stride);
    counts.describe(route, me_);
    route.copies = counts.by_pair();
    route.rows = rows_;
    next_row_ = counts.first_rows(me_);
  }

  void dispatch_send(Route& any_route, TokenSide from, Values values) override {
    auto& route = static_cast<ProxyRoute&>(any_route);
    values_ = values;
    if (route.is_settled()) {
      count_logical(
          route.copies.ranks(), [&](int peer) { return route.copies.at(me_, peer); }, forth_);
      const std::byte* tokens = forth_.encoded(static_cast<const T*>(from.tokens), route.token_count);
      send_blocks("dispatch", route.rows, route.copies, forth_, [&](int target, RowBlock<std::byte, T> block) {
        pack_rows(route.mine.sent[static_cast<std::size_t>(target)], tokens, from, block);
      });
      return;
    }
    count_logical(
        placement_.rank_count,
        [&](int peer) {
          return static_cast<std::int64_t>(route.mine.sent[static_cast<std::size_t>(peer)].copies.size());
        },
        forth_);
    send_records(route, from);
  }

  void dispatch_wait(Route& any_route, RowSide to) override {
    auto& route = static_cast<ProxyRoute&>(any_route);
    if (!is_fresh_) {
      worker_.wait();
      for (int source = 0; source < placement_.rank_count; ++source) {
        fan_out<T>(route.received[static_cast<std::size_t>(source)], block_from(source), forth_, to);
      }
      return;
    }
    settle(route);
    worker_.wait();
    route.received.resize(static_cast<std::size_t>(placement_.rank_count));
    for (int source = 0; source < placement_.rank_count; ++source) take_records(source, route, to);
  }

  void combine_send(Route& any_route, RowSide from, Values values) override {
    auto& route = static_cast<ProxyRoute&>(any_route);
    values_ = values;
    count_logical(
        placement_.rank_count, [&](int peer) { return route.copies.at(peer, me_); }, back_);
    send_blocks("combine", transposed(route.rows), transposed(route.copies), back_,
                [&](int target, RowBlock<std::byte, T> block) {
                  fan_in(route.received[static_cast<std::size_t>(target)], from, back_, block);
                });
  }

  void combine_wait(Route& any_route, TokenSide to) override {
    const auto& route = static_cast<const ProxyRoute&>(any_route);
    worker_.wait();
    std::vector<RowBlock<const std::byte, const T>> blocks;
    for (int source = 0; source < placement_.rank_count; ++source) blocks.push_back(block_from(source));
    back_.from_wire(
        route.token_count,
        [&](std::int64_t token, std::vector<const std::byte*>& parts) {
          for (const Part& part : route.mine.parts_of(token)) {
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
  // ---- Fresh: records

  void send_records(ProxyRoute& route, TokenSide from) {
    is_fresh_ = true;
    record_ = record_layout(options_, options_.dispatch_wire, values_);
    rows_ = PairTable(placement_.rank_count);
    memory_.begin("dispatch", route.counts.size() * sizeof(std::uint32_t));
    for (int peer = 0; peer < placement_.rank_count; ++peer) {
      std::memcpy(memory_.header_to(peer), route.counts.data(), route.counts.size() * sizeof(std::uint32_t));
    }
    has_counts_ = has_failed_ = is_packed_ = false;
    worker_.start([this, &route] { run_fresh(route); });
    try {
      pack_records(route, from);
    } catch (...) {
      has_failed_ = true;
      finish_packing();
      throw;
    }
    finish_packing();
  }

  void finish_packing() {
    is_packed_ = true;
    is_packed_.notify_all();
  }

  // On the worker's thread.
  void run_fresh(const ProxyRoute& route) {
    try {
      for_each_peer([&](int peer) { memory_.put_header(peer); });
      is_packed_.wait(false);
      if (has_failed_) return;  // the owner says why
      for_each_peer([&](int peer) {
        const std::int64_t rows = std::min(prefix_rows_, rows_to(route, peer));
        memory_.put_data(peer, first_record(route, peer) * record_.bytes, prefix_offset(me_),
                         static_cast<std::size_t>(rows) * record_.bytes);
      });
      memory_.wait_headers();
      read_row_counts();
      has_counts_ = true;
      has_counts_.notify_all();
      for_each_peer([&](int peer) {
        const std::int64_t rows = std::max<std::int64_t>(0, rows_to(route, peer) - prefix_rows_);
        memory_.put_data(peer, (first_record(route, peer) + static_cast<std::size_t>(prefix_rows_)) * record_.bytes,
                         overflow_offset(me_, peer), static_cast<std::size_t>(rows) * record_.bytes);
      });
      std::vector<std::size_t> puts;
      for (int source = 0; source < placement_.rank_count; ++source) {
        const std::int64_t rows = rows_.at(source, me_), first = std::min(rows, prefix_rows_);
        puts.push_back(memory_.puts_of(static_cast<std::size_t>(first) * record_.bytes) +
                       memory_.puts_of(static_cast<std::size_t>(rows - first) * record_.bytes));
      }
      memory_.wait_data(puts);
      memory_.wait_sent();
    } catch (...) {
      has_failed_ = true;
      has_counts_ = true;
      has_counts_.notify_all();
      throw;
    }
  }

  void pack_records(const ProxyRoute& route, TokenSide from) {
    const std::byte* tokens = forth_.encoded(static_cast<const T*>(from.tokens), route.token_count);
    const std::size_t copies_max = copies_of_record(options_);
    std::byte* record = memory_.send_data();
    for (const SentRows& sent : route.mine.sent) {
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
  }

  void take_records(int source, ProxyRoute& route, RowSide to) {
    Fan& fan = route.received[static_cast<std::size_t>(source)];
    const auto ranks = static_cast<std::size_t>(placement_.rank_count);
    const std::size_t copies_max = copies_of_record(options_);
    const std::int64_t rows = rows_.at(source, me_);
    const std::byte* const prefix = source == me_ ? memory_.send_data() + first_record(route, me_) * record_.bytes
                                                  : memory_.received_data() + prefix_offset(source);
    const std::byte* const behind = source == me_ ? prefix + static_cast<std::size_t>(prefix_rows_) * record_.bytes
                                                  : memory_.received_data() + overflow_offset(source, me_);
    const auto record_at = [&](std::int64_t row) {
      return row < prefix_rows_ ? prefix + static_cast<std::size_t>(row) * record_.bytes
                                : behind + static_cast<std::size_t>(row - prefix_rows_) * record_.bytes;
    };
    auto* const to_rows = static_cast<T*>(to.rows);
    {
      const CastPhase cast = forth_.cast_phase();
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::byte* const record = record_at(row);
        const auto* experts = reinterpret_cast<const std::uint32_t*>(record + record_.experts_offset);
        const std::size_t first = fan.place_of_copy.size();
        for (std::size_t i = 0; i < copies_max && experts[i] != kNoCopy; ++i) {
          fan.place_of_copy.push_back(next_row_[experts[i] * ranks + static_cast<std::size_t>(source)]++);
        }
        fan.copies_of_row.push_back(static_cast<std::uint32_t>(fan.place_of_copy.size() - first));
        forth_.codec().decode(record, to_rows + fan.place_of_copy[first] * forth_.hidden());
      }
    }
    const std::int64_t* place = fan.place_of_copy.data();
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto* values = reinterpret_cast<const T*>(record_at(row) + record_.values_offset);
      const T* const first = to_rows + *place * forth_.hidden();
      for (std::uint32_t i = 0; i < fan.copies_of_row[static_cast<std::size_t>(row)]; ++i, ++place) {
        if (i > 0) std::copy_n(first, forth_.hidden(), to_rows + *place * forth_.hidden());
        if (values_ == Values::sent) static_cast<T*>(to.row_values)[*place] = values[i];
      }
    }
  }

  std::uint32_t count_of(int source, std::size_t index) const {
    const std::byte* const header = source == me_ ? memory_.header_to(me_) : memory_.header_from(source);
    std::uint32_t count;
    std::memcpy(&count, header + index * sizeof count, sizeof count);
    return count;
  }

  void read_row_counts() {
    for (int source = 0; source < placement_.rank_count; ++source) {
      for (int target = 0; target < placement_.rank_count; ++target) {
        rows_.at(source, target) = count_of(source, static_cast<std::size_t>(placement_.expert_count + target));
      }
    }
  }

  static std::int64_t rows_to(const ProxyRoute& route, int peer) {
    return static_cast<std::int64_t>(route.mine.sent[static_cast<std::size_t>(peer)].token_of_row.size());
  }

  static std::size_t first_record(const ProxyRoute& route, int peer) {
    std::size_t first = 0;
    for (int p = 0; p < peer; ++p) first += route.mine.sent[static_cast<std::size_t>(p)].token_of_row.size();
    return first;
  }

  std::size_t prefix_offset(int source) const {
    return static_cast<std::size_t>(source) * static_cast<std::size_t>(prefix_rows_) * record_.bytes;
  }

  // Behind all prefixes, and behind what other sources have for `target` beyond theirs.
  std::size_t overflow_offset(int source, int target) const {
    std::int64_t rows = prefix_rows_ * placement_.rank_count;
    for (int s = 0; s < source; ++s) rows += std::max<std::int64_t>(0, rows_.at(s, target) - prefix_rows_);
    return static_cast<std::size_t>(rows) * record_.bytes;
  }

  // ---- Cached, and the way back: blocks

  struct Block {
    std::size_t offset = 0;
    std::size_t values_offset = 0;  // from the block's beginning
    std::size_t bytes = 0;
  };

  Block block_after(std::size_t offset, std::int64_t rows, std::int64_t copies, const RowSums<T>& wire) const {
    const std::size_t values_offset = aligned(static_cast<std::size_t>(rows) * wire.row_bytes(), sizeof(T));
    return {offset, values_offset,
            values_offset + (values_ == Values::sent ? static_cast<std::size_t>(copies) * sizeof(T) : 0)};
  }

  // Where the block of each source lies on `target`.
  std::vector<Block> blocks_on(int target, const PairTable& rows, const PairTable& copies,
                               const RowSums<T>& wire) const {
    std::vector<Block> blocks;
    std::size_t offset = 0;
    for (int source = 0; source < placement_.rank_count; ++source) {
      blocks.push_back(block_after(offset, rows.at(source, target), copies.at(source, target), wire));
      offset = aligned(offset + blocks.back().bytes, kLine);
    }
    return blocks;
  }

  template <class Fill>
  void send_blocks(std::string_view operation, const PairTable& rows, const PairTable& copies, const RowSums<T>& wire,
                   const Fill& fill) {
    is_fresh_ = false;
    memory_.begin(operation, kBareHeaderBytes);
    blocks_from_ = blocks_on(me_, rows, copies, wire);
    blocks_to_.clear();
    landing_.clear();
    std::size_t offset = 0;
    for (int target = 0; target < placement_.rank_count; ++target) {
      const auto t = static_cast<std::size_t>(target);
      landing_.push_back(blocks_on(target, rows, copies, wire)[static_cast<std::size_t>(me_)].offset);
      blocks_to_.push_back(block_after(offset, rows.at(me_, target), copies.at(me_, target), wire));
      std::byte* const block =
          target == me_ ? memory_.received_data() + landing_[t] : memory_.send_data() + blocks_to_[t].offset;
      fill(target,
           {block, values_ == Values::sent ? reinterpret_cast<T*>(block + blocks_to_[t].values_offset) : nullptr});
      if (target != me_) offset = aligned(offset + blocks_to_[t].bytes, kLine);
    }
    worker_.start([this] { run_blocks(); });
  }

  // On the worker's thread.
  void run_blocks() {
    for_each_peer([&](int peer) {
      const auto p = static_cast<std::size_t>(peer);
      memory_.put_header(peer);
      memory_.put_data(peer, blocks_to_[p].offset, landing_[p], blocks_to_[p].bytes);
    });
    memory_.wait_headers();
    std::vector<std::size_t> puts;
    for (const Block& block : blocks_from_) puts.push_back(memory_.puts_of(block.bytes));
    memory_.wait_data(puts);
    memory_.wait_sent();
  }

  void pack_rows(const SentRows& sent, const std::byte* tokens, TokenSide from, RowBlock<std::byte, T> block) {
    for (const std::int64_t token : sent.token_of_row) {
      block.rows =
          std::copy_n(tokens + static_cast<std::size_t>(token) * forth_.row_bytes(), forth_.row_bytes(), block.rows);
    }
    if (block.values == nullptr) return;
    for (const std::int64_t copy : sent.copies) *block.values++ = static_cast<const T*>(from.copy_values)[copy];
  }

  RowBlock<const std::byte, const T> block_from(int source) {
    const Block& block = blocks_from_[static_cast<std::size_t>(source)];
    const std::byte* const data = memory_.received_data() + block.offset;
    return {data, values_ == Values::sent ? reinterpret_cast<const T*>(data + block.values_offset) : nullptr};
  }

  // ---- Both

  // Round the ring from the next rank on, so that the ranks do not all write to the same one.
  template <class Visit>
  void for_each_peer(const Visit& visit) const {
    for (int step = 1; step < placement_.rank_count; ++step) visit((me_ + step) % placement_.rank_count);
  }

  template <class CopiesOf>
  void count_logical(int ranks, const CopiesOf& copies_of, const RowSums<T>& wire) {
    const std::size_t copy_bytes = wire.row_bytes() + (values_ == Values::sent ? sizeof(T) : 0);
    for (int peer = 0; peer < ranks; ++peer) {
      if (peer != me_) logical_ += static_cast<std::uint64_t>(copies_of(peer)) * copy_bytes;
    }
  }

  DispatcherOptions options_;
  ExpertPlacement placement_;
  int me_;
  std::int64_t prefix_rows_;
  RowSums<T> forth_, back_;
  OneSided memory_;
  DispatcherCapabilities capabilities_;
  std::uint64_t logical_ = 0;

  // Of the operation under way. The worker writes rows_ before has_counts_.
  Values values_ = Values::none;
  bool is_fresh_ = false;
  RecordLayout record_;
  PairTable rows_;
  std::vector<std::int64_t> next_row_;  // of (local expert, source)
  std::vector<Block> blocks_to_, blocks_from_;
  std::vector<std::size_t> landing_;
  std::atomic<bool> is_packed_ = false, has_counts_ = false, has_failed_ = false;

  Worker worker_;  // last: it uses the others
};

}  // namespace

std::unique_ptr<Dispatcher> make_proxy_dispatcher(Channel& channel, const DispatcherOptions& options) {
  return make_by_element<Proxy>(channel, options);
}

}  // namespace mrb
