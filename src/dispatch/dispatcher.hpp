// Moves tokens to the ranks of their experts, and the experts' rows back.
//
//   tokens [T][H] on their own rank  --dispatch-->  rows [N][H] on the experts' rank, grouped by expert
//   tokens [T][H]                    <--combine---  rows [N][H]
//
// A copy is one token for one expert: token t has copies (t, 0) to (t, top_k - 1), and each copy becomes one
// row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/phase_clock.hpp"
#include "base/registry.hpp"
#include "cluster/placement.hpp"
#include "dispatch/wire_type.hpp"
#include "transport/channel.hpp"

namespace mrb {

enum class ElementType { f32, f64 };

constexpr std::size_t element_bytes(ElementType type) {
  return type == ElementType::f32 ? 4 : 8;
}

// What the router decided for this rank's tokens. expert_ids[t * top_k + k] is -1 for a dropped copy; the
// experts of one token differ.
struct Routing {
  std::span<const std::int32_t> expert_ids;
  int top_k = 1;

  std::int64_t token_count() const { return static_cast<std::int64_t>(expert_ids.size()) / top_k; }
};

// Where every copy goes: made once by route(), used by forward and backward alike (a cached route). Dispatchers derive
// their own.
class Route {
 public:
  virtual ~Route() = default;

  std::int64_t token_count = 0;  // of this rank
  int top_k = 1;

  // Known once settle() has returned.
  std::vector<std::int64_t> rows_of;  // by local expert; rows come in this order: expert, then source rank,
                                      // then source token, then k
  std::int64_t row_count = 0;         // sum of rows_of
};

// Elements are of the type the dispatcher was made with. Memory for no elements may be null, and so may that of values
// that do not travel.
struct TokenSide {
  void* tokens = nullptr;       // [token_count][hidden]
  void* copy_values = nullptr;  // [token_count][top_k], one scalar per copy: a gate, or a gate's gradient
};
struct RowSide {
  void* rows = nullptr;        // [row_count][hidden]
  void* row_values = nullptr;  // [row_count]
};

// Whether values travel beside the rows, on all ranks alike. They are never rounded.
enum class Values { none, sent };

// How a dispatcher adds up the rows of one token. Each sum that crosses the wire is rounded to the wire type on its way,
// also where it stays on its rank. The sums differ in their last bits, so the check of combine() repeats the
// dispatcher's own order.
enum class ReductionTree {
  by_copy,  // ((row of k = 0 + row of k = 1) + row of k = 2) ...
  by_rank,  // first like by_copy among the rows of one rank, on that rank; then those sums in ascending rank
  by_node   // first like by_rank among the ranks of one node, on that node; then those sums in ascending node
};

// What one dispatcher, made with given options, is and needs. Every limit is checked before anything runs.
struct DispatcherCapabilities {
  std::string name;
  std::string pattern;    // what crosses the wire: "one row per (token, expert)", ...
  std::string published;  // kernels of others with this pattern; this code is our own implementation of it
  ReductionTree tree = ReductionTree::by_copy;
  int top_k_max = 0;
  int ranks_max = std::numeric_limits<int>::max();                     // the channel has a limit of its own
  std::int64_t tokens_max = std::numeric_limits<std::int64_t>::max();  // of one rank in one call
  std::uint64_t buffer_bytes = 0;  // of one rank, for options.tokens_max tokens on each, routed uniformly
  std::string buffer_formula;      // in words, with the numbers in it
};

// What one rank handed to the transport since the dispatcher was made; rows it kept for itself are not in it.
struct DispatchBytes {
  // Copies that leave this rank (dispatch) or come back to others (combine), times a row in the wire type, and one more
  // element when values travel. The same for every dispatcher.
  std::uint64_t logical = 0;

  // Payload really put, with every count, header and notice.
  std::uint64_t wire = 0;
  std::uint64_t wire_between_nodes = 0;  // the part of it that went to another node

  friend DispatchBytes operator-(DispatchBytes a, const DispatchBytes& b) {
    return {a.logical - b.logical, a.wire - b.wire, a.wire_between_nodes - b.wire_between_nodes};
  }
  DispatchBytes& operator+=(DispatchBytes more) {
    logical += more.logical;
    wire += more.wire;
    wire_between_nodes += more.wire_between_nodes;
    return *this;
  }
};

// All methods but the two accessors are collective: every rank calls them in the same order, with tokens or
// without. One operation is under way at a time: after a *_send comes its *_wait. Between the two the caller may
// compute, and leaves alone the channel, the bootstrap and the memory it gave. They throw what Channel throws.
//
//   fresh    route, dispatch_send, settle, dispatch_wait     the first dispatch with a route
//   cached          dispatch_send,         dispatch_wait     any later one
//                   combine_send,          combine_wait
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;  // collective too: the transport must still be open on all ranks

  virtual const DispatcherCapabilities& capabilities() const = 0;
  virtual DispatchBytes bytes() const = 0;

  // Decides where this rank's copies go. Some dispatchers exchange counts here, others leave that to the first dispatch.
  // Throws Error(config) for more copies or tokens than capabilities() allow.
  virtual std::unique_ptr<Route> route(const Routing&) = 0;

  // Waits until the route's rows are counted. Only the first dispatch with a route has to be sent before.
  virtual void settle(Route&) = 0;

  // rows[place of (t, k)] = tokens[t], and row_values[place of (t, k)] = copy_values[t][k].
  // Forward it carries hidden states and gates; backward, with the same route, it is the gradient of combine().
  virtual void dispatch_send(Route&, TokenSide from, Values) = 0;
  virtual void dispatch_wait(Route&, RowSide to) = 0;

  // tokens[t] = sum over k of rows[place of (t, k)], in the order of capabilities().tree (a token without
  // copies gets 0), and copy_values[t][k] = row_values[place of (t, k)] (0 for a dropped copy). Backward,
  // with the same route, it is the gradient of dispatch().
  virtual void combine_send(Route&, RowSide from, Values) = 0;
  virtual void combine_wait(Route&, TokenSide to) = 0;

  // Both halves of a dispatch with a settled route, and of a combine.
  void dispatch(Route& route, TokenSide from, RowSide to, Values values) {
    dispatch_send(route, from, values);
    dispatch_wait(route, to);
  }
  void combine(Route& route, RowSide from, TokenSide to, Values values) {
    combine_send(route, from, values);
    combine_wait(route, to);
  }
};

// How low_latency cuts what it sends.
enum class Batching { token, expert, rank };

// What proxy sends once instead of once per copy.
enum class Dedup { none, rank, node };

struct DispatcherOptions {
  std::int64_t hidden = 0;
  ExpertPlacement placement;  // its rank_count is the channel's size
  int top_k = 1;              // the largest that will be routed
  ElementType element = ElementType::f32;
  WireType dispatch_wire = WireType::native;
  WireType combine_wire = WireType::native;
  std::int64_t tokens_max = 0;           // of one rank in one call: what fixed buffers are made for
  Batching batching = Batching::expert;  // low_latency
  Dedup dedup = Dedup::rank;             // proxy
  std::int64_t prefix_rows = 0;          // proxy: rows sent to each rank before the counts are known
  PhaseClock* phases = nullptr;          // gets the phase "cast" inside the caller's; may be null
};

// What the dispatcher would be with these options. Opens nothing. Throws Error(config) for an unknown name.
DispatcherCapabilities dispatcher_capabilities(std::string_view name, const DispatcherOptions&);

// Why a dispatcher cannot run with these options, with the values; empty when it can.
std::string dispatcher_misfit(const DispatcherCapabilities&, const DispatcherOptions&);

// Collective. The channel and `phases` must outlive the dispatcher. Throws Error(config) for an unknown name, for
// experts that do not divide over the ranks or ranks that do not divide over the nodes, and for what
// dispatcher_misfit() says.
std::unique_ptr<Dispatcher> make_dispatcher(std::string_view name, Channel&, const DispatcherOptions&);

std::vector<RegistryLine> dispatcher_lines();

}  // namespace mrb
