// Fixed places on the experts' rank for every row that could come: no counts have to arrive before the rows may leave.
//
//   a slot    [encoded row][value]
//   data      slot [source][local expert][i], i < tokens_max: the i-th copy of that source for that expert
//
// Each rank puts its rows straight into their slots, and beside them one header to each rank: how many for each of its
// experts. The header says how many puts to count; rows and header may arrive in any order. Sums come back the same way,
// into [experts' rank][local expert][i] on the tokens' rank, which adds them in ascending k.
//
// What goes into one put is `batching`: a token's row, an expert's rows (they are neighbours), or all rows for a rank,
// which then lie one after the other without the gaps between experts.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "dispatch/by_element.hpp"
#include "dispatch/copy_counts.hpp"
#include "dispatch/one_sided.hpp"
#include "dispatch/row_sums.hpp"
#include "dispatch/traffic_model.hpp"

namespace mrb {

namespace {

std::size_t slot_bytes(const DispatcherOptions& options, WireType wire) {
  const std::size_t value = value_bytes(options);
  return (row_bytes(options, wire) + value - 1) / value * value + value;
}

OneSided::Sizes sizes_of(const DispatcherOptions& options) {
  const ExpertPlacement& placement = options.placement;
  const std::size_t slots =
      static_cast<std::size_t>(placement.expert_count) * static_cast<std::size_t>(options.tokens_max);
  const std::size_t bytes =
      slots * std::max(slot_bytes(options, options.dispatch_wire), slot_bytes(options, options.combine_wire));
  return {.header_bytes = static_cast<std::size_t>(placement.experts_per_rank()) * sizeof(std::uint32_t),
          .receive_bytes = bytes,
          .send_bytes = bytes};
}

}  // namespace

DispatcherCapabilities low_latency_capabilities(const DispatcherOptions& options) {
  return {.name = "low_latency",
          .pattern = "one row per (token, expert), straight into fixed slots",
          .published = "DeepEP, UCCL-EP and NIXL-EP low-latency",
          .tree = ReductionTree::by_copy,
          .top_k_max = options.placement.expert_count,
          .tokens_max = options.tokens_max,
          .buffer_bytes = OneSided::buffer_bytes(sizes_of(options), options.placement.rank_count),
          .buffer_formula = fmt::format(
              "(1 send + 2 receive buffers) x {} experts x {} tokens x {} bytes a slot", options.placement.expert_count,
              options.tokens_max,
              std::max(slot_bytes(options, options.dispatch_wire), slot_bytes(options, options.combine_wire)))};
}

namespace {

// Counts of rows, [rank][local expert].
using Counts = std::vector<std::int64_t>;

struct LowLatencyRoute final : Route {
  Counts sent;                            // this rank's copies for each expert, which are numbered [rank][local]
  Counts received;                        // by source and this rank's expert; empty until settled
  std::vector<std::int64_t> copy_of_row;  // sent rows in the order of experts: t * top_k + k
  std::vector<std::int64_t> row_of_copy;  // its place among the sent rows; -1 for a dropped copy
};

template <class T>
class LowLatency final : public Dispatcher {
 public:
  LowLatency(Channel& channel, const DispatcherOptions& options)
      : placement_(options.placement),
        experts_(static_cast<std::size_t>(placement_.experts_per_rank())),
        tokens_max_(static_cast<std::size_t>(options.tokens_max)),
        batching_(options.batching),
        me_(channel.rank()),
        forth_(options.dispatch_wire, options.hidden, options.phases),
        back_(options.combine_wire, options.hidden, options.phases),
        forth_slot_bytes_(slot_bytes(options, options.dispatch_wire)),
        back_slot_bytes_(slot_bytes(options, options.combine_wire)),
        memory_(channel, sizes_of(options)),
        capabilities_(low_latency_capabilities(options)) {}

  const DispatcherCapabilities& capabilities() const override { return capabilities_; }

  DispatchBytes bytes() const override { return wire_bytes(memory_.bytes_put_to(), placement_, me_, logical_); }

  // Nothing is exchanged. A counting sort by expert: stable, so one expert's copies stay in the order of (token, k).
  std::unique_ptr<Route> route(const Routing& routing) override {
    if (routing.token_count() > capabilities_.tokens_max) {
      throw Error(ErrorKind::config,
                  fmt::format("dispatcher 'low_latency' has room for {} tokens of one rank in one call, and got {}",
                              capabilities_.tokens_max, routing.token_count()),
                  fmt::format("set dispatcher.tokens_max to {} or more", routing.token_count()));
    }
    auto route = std::make_unique<LowLatencyRoute>();
    route->token_count = routing.token_count();
    route->top_k = routing.top_k;
    route->sent = count_copies(routing, placement_);
    std::vector<std::int64_t> next_row(route->sent.size());
    std::exclusive_scan(route->sent.begin(), route->sent.end(), next_row.begin(), std::int64_t{0});
    route->copy_of_row.resize(
        static_cast<std::size_t>(std::accumulate(route->sent.begin(), route->sent.end(), std::int64_t{0})));
    for (std::size_t copy = 0; copy < routing.expert_ids.size(); ++copy) {
      const std::int32_t expert = routing.expert_ids[copy];
      const std::int64_t row = expert < 0 ? -1 : next_row[static_cast<std::size_t>(expert)]++;
      route->row_of_copy.push_back(row);
      if (row >= 0) route->copy_of_row[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(copy);
    }
    return route;
  }

  void dispatch_send(Route& any_route, TokenSide from, Values values) override {
    const auto& route = static_cast<const LowLatencyRoute&>(any_route);
    const auto* copy_values = static_cast<const T*>(from.copy_values);
    const std::byte* tokens = forth_.encoded(static_cast<const T*>(from.tokens), route.token_count);
    const std::size_t row_bytes = forth_.row_bytes();
    begin("dispatch", forth_slot_bytes_, values);
    std::int64_t row = 0;
    send(route.sent, [&](std::byte* slots, std::int64_t count) {
      for (const std::int64_t end = row + count; row < end; ++row, slots += slot_bytes_) {
        const std::int64_t copy = route.copy_of_row[static_cast<std::size_t>(row)];
        std::memcpy(slots, tokens + static_cast<std::size_t>(copy / route.top_k) * row_bytes, row_bytes);
        if (values == Values::sent) value_in(slots) = copy_values[copy];
      }
    });
    count_logical(route.sent, row_bytes);
  }

  void settle(Route& any_route) override {
    auto& route = static_cast<LowLatencyRoute&>(any_route);
    if (!route.received.empty()) return;
    wait_headers();
    for (int source = 0; source < placement_.rank_count; ++source) {
      for (std::size_t local = 0; local < experts_; ++local) {
        route.received.push_back(source == me_ ? sent_to_me(route)[local] : count_in_header(source, local));
      }
    }
    for (std::size_t local = 0; local < experts_; ++local) {
      std::int64_t rows = 0;
      for (std::size_t first = 0; first < route.received.size(); first += experts_)
        rows += route.received[first + local];
      route.rows_of.push_back(rows);
      route.row_count += rows;
    }
  }

  void dispatch_wait(Route& any_route, RowSide to) override {
    auto& route = static_cast<LowLatencyRoute&>(any_route);
    settle(route);
    wait_headers();
    wait_rows(route.received);
    const CastPhase cast = forth_.cast_phase();
    for_each_run(route, [&](std::byte* slots, std::int64_t row, std::int64_t count) {
      for (const std::int64_t end = row + count; row < end; ++row, slots += slot_bytes_) {
        forth_.codec().decode(slots, static_cast<T*>(to.rows) + row * forth_.hidden());
        if (values_ == Values::sent) static_cast<T*>(to.row_values)[row] = value_in(slots);
      }
    });
  }

  void combine_send(Route& any_route, RowSide from, Values values) override {
    const auto& route = static_cast<const LowLatencyRoute&>(any_route);
    begin("combine", back_slot_bytes_, values);
    const auto first_rows = first_row_of_runs(route);
    std::size_t run = 0;
    send(route.received, [&](std::byte* slots, std::int64_t count) {
      const CastPhase cast = back_.cast_phase();
      std::int64_t row = first_rows[run++];
      for (const std::int64_t end = row + count; row < end; ++row, slots += slot_bytes_) {
        back_.codec().encode(static_cast<const T*>(from.rows) + row * back_.hidden(), slots);
        if (values == Values::sent) value_in(slots) = static_cast<const T*>(from.row_values)[row];
      }
    });
    count_logical(route.received, back_.row_bytes());
  }

  void combine_wait(Route& any_route, TokenSide to) override {
    const auto& route = static_cast<const LowLatencyRoute&>(any_route);
    wait_headers();
    wait_rows(route.sent);
    std::vector<const std::byte*> slot_of_row;  // sums come back in the order in which rows were sent
    for (std::size_t expert = 0; expert < route.sent.size(); ++expert) {
      const std::byte* slots = received_slots(route.sent, expert);
      for (std::int64_t i = 0; i < route.sent[expert]; ++i, slots += slot_bytes_) slot_of_row.push_back(slots);
    }
    back_.from_wire(
        route.token_count,
        [&](std::int64_t token, std::vector<const std::byte*>& parts) {
          for (std::int64_t copy = token * route.top_k; copy < (token + 1) * route.top_k; ++copy) {
            const std::int64_t row = route.row_of_copy[static_cast<std::size_t>(copy)];
            if (row >= 0) parts.push_back(slot_of_row[static_cast<std::size_t>(row)]);
          }
        },
        static_cast<T*>(to.tokens));
    if (values_ == Values::none) return;
    for (std::size_t copy = 0; copy < route.row_of_copy.size(); ++copy) {
      const std::int64_t row = route.row_of_copy[copy];
      static_cast<T*>(to.copy_values)[copy] = row < 0 ? T{0} : value_in(slot_of_row[static_cast<std::size_t>(row)]);
    }
  }

 private:
  std::span<const std::int64_t> sent_to_me(const LowLatencyRoute& route) const {
    return std::span(route.sent).subspan(static_cast<std::size_t>(me_) * experts_, experts_);
  }

  T& value_in(std::byte* slot) const { return *reinterpret_cast<T*>(slot + slot_bytes_ - sizeof(T)); }
  T value_in(const std::byte* slot) const { return *reinterpret_cast<const T*>(slot + slot_bytes_ - sizeof(T)); }

  void begin(std::string_view operation, std::size_t slot_bytes, Values values) {
    memory_.begin(operation, experts_ * sizeof(std::uint32_t));
    slot_bytes_ = slot_bytes;
    values_ = values;
    has_headers_ = false;
  }

  void wait_headers() {
    if (!std::exchange(has_headers_, true)) memory_.wait_headers();
  }

  std::int64_t count_in_header(int source, std::size_t local) const {
    std::uint32_t count;
    std::memcpy(&count, memory_.header_from(source) + local * sizeof count, sizeof count);
    return count;
  }

  // The slots of [rank][expert] within a half. With one put per rank they follow each other without gaps.
  std::size_t slot_index(const Counts& counts, std::size_t rank, std::size_t expert) const {
    const std::size_t area = rank * experts_ * tokens_max_;
    if (batching_ != Batching::rank) return area + expert * tokens_max_;
    const auto first = counts.begin() + static_cast<std::ptrdiff_t>(rank * experts_);
    return area + static_cast<std::size_t>(
                      std::accumulate(first, first + static_cast<std::ptrdiff_t>(expert), std::int64_t{0}));
  }

  const std::byte* received_slots(const Counts& counts, std::size_t index) {
    return memory_.received_data() + slot_index(counts, index / experts_, index % experts_) * slot_bytes_;
  }

  // Sends counts[rank][expert] rows to each rank. `fill` is called once for each, in that order; it writes them.
  template <class Fill>
  void send(const Counts& counts, const Fill& fill) {
    std::size_t filled = 0;  // slots of send_data()
    for (int rank = 0; rank < placement_.rank_count; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const auto mine = static_cast<std::size_t>(me_);
      const std::size_t first = filled;
      for (std::size_t expert = 0; expert < experts_; ++expert) {
        const std::int64_t count = counts[r * experts_ + expert];
        const auto count32 = static_cast<std::uint32_t>(count);
        std::memcpy(memory_.header_to(rank) + expert * sizeof count32, &count32, sizeof count32);
        if (rank == me_) {  // is where it will be read
          fill(memory_.received_data() + slot_index(counts, r, expert) * slot_bytes_, count);
          continue;
        }
        fill(memory_.send_data() + filled * slot_bytes_, count);
        const std::size_t landing = (mine * experts_ + expert) * tokens_max_;
        const auto rows = static_cast<std::size_t>(count);
        if (batching_ == Batching::expert) put(rank, filled, landing, rows);
        if (batching_ == Batching::token) {
          for (std::size_t i = 0; i < rows; ++i) put(rank, filled + i, landing + i, 1);
        }
        filled += rows;
      }
      if (rank == me_) continue;
      if (batching_ == Batching::rank) put(rank, first, mine * experts_ * tokens_max_, filled - first);
      memory_.put_header(rank);
    }
  }

  void put(int rank, std::size_t from_slot, std::size_t to_slot, std::size_t slots) {
    memory_.put_data(rank, from_slot * slot_bytes_, to_slot * slot_bytes_, slots * slot_bytes_);
  }

  // Waits for counts[rank][expert] rows from each rank, and for this rank's own to be sent.
  void wait_rows(const Counts& counts) {
    std::vector<std::size_t> puts;
    for (std::size_t first = 0; first < counts.size(); first += experts_) {
      std::size_t of_rank = 0, rows_of_rank = 0;
      for (std::size_t expert = 0; expert < experts_; ++expert) {
        const auto rows = static_cast<std::size_t>(counts[first + expert]);
        rows_of_rank += rows;
        if (batching_ == Batching::expert) of_rank += memory_.puts_of(rows * slot_bytes_);
        if (batching_ == Batching::token) of_rank += rows * memory_.puts_of(slot_bytes_);
      }
      puts.push_back(batching_ == Batching::rank ? memory_.puts_of(rows_of_rank * slot_bytes_) : of_rank);
    }
    memory_.wait_data(puts);
    memory_.wait_sent();
  }

  // Where the rows of each [source][local expert] begin among this rank's rows: Route wants them by expert, then source.
  std::vector<std::int64_t> first_row_of_runs(const LowLatencyRoute& route) const {
    std::vector<std::int64_t> first(route.received.size());
    std::int64_t row = 0;
    for (std::size_t local = 0; local < experts_; ++local) {
      for (std::size_t run = local; run < first.size(); run += experts_) {
        first[run] = row;
        row += route.received[run];
      }
    }
    return first;
  }

  template <class Take>
  void for_each_run(const LowLatencyRoute& route, const Take& take) {
    const auto first_rows = first_row_of_runs(route);
    for (std::size_t run = 0; run < first_rows.size(); ++run) {
      take(memory_.received_data() + slot_index(route.received, run / experts_, run % experts_) * slot_bytes_,
           first_rows[run], route.received[run]);
    }
  }

  void count_logical(const Counts& counts, std::size_t row_bytes) {
    const std::size_t copy_bytes = row_bytes + (values_ == Values::sent ? sizeof(T) : 0);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (i / experts_ != static_cast<std::size_t>(me_)) logical_ += static_cast<std::uint64_t>(counts[i]) * copy_bytes;
    }
  }

  ExpertPlacement placement_;
  std::size_t experts_;  // on each rank
  std::size_t tokens_max_;
  Batching batching_;
  int me_;
  RowSums<T> forth_, back_;
  std::size_t forth_slot_bytes_, back_slot_bytes_;
  OneSided memory_;
  DispatcherCapabilities capabilities_;
  std::uint64_t logical_ = 0;

  // Of the operation under way:
  std::size_t slot_bytes_ = 0;
  Values values_ = Values::none;
  bool has_headers_ = false;
};

}  // namespace

std::unique_ptr<Dispatcher> make_low_latency_dispatcher(Channel& channel, const DispatcherOptions& options) {
  return make_by_element<LowLatency>(channel, options);
}

}  // namespace mrb
