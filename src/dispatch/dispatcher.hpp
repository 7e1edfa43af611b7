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
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.hpp"
#include "cluster/placement.hpp"
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

// Where every copy goes, known on both sides: made once by route(), used by forward and backward alike (a
// cached route). Dispatchers derive their own.
class Route {
 public:
  virtual ~Route() = default;

  std::int64_t token_count = 0;  // of this rank
  int top_k = 1;
  std::vector<std::int64_t> rows_of;    // by local expert; rows come in this order: expert, then source rank,
                                        // then source token, then k
  std::int64_t row_count = 0;           // sum of rows_of
  std::vector<std::int64_t> copies_of;  // by expert, over the tokens of all ranks: the routers' load
};

// Elements are of the type the dispatcher was made with. Values travel or they do not, on all ranks alike: give
// both `copy_values` and `row_values`, or neither. Memory for no elements may be null.
struct TokenSide {
  void* tokens = nullptr;       // [token_count][hidden]
  void* copy_values = nullptr;  // [token_count][top_k], one scalar per copy: a gate, or a gate's gradient
};
struct RowSide {
  void* rows = nullptr;        // [row_count][hidden]
  void* row_values = nullptr;  // [row_count]
};

// How a dispatcher adds up the rows of one token. The sums differ in their last bits, so the check of
// combine() repeats the dispatcher's own order.
enum class ReductionTree {
  by_copy,  // ((row of k = 0 + row of k = 1) + row of k = 2) ...
  by_rank   // first like by_copy among the rows of one rank, on that rank; then those sums in ascending rank
            // order
};

struct DispatcherCapabilities {
  std::string name;
  std::string pattern;  // what crosses the wire: "one row per (token, expert)", ...
  ReductionTree tree = ReductionTree::by_copy;
  int top_k_max = 0;
  int ranks_max = 0;
};

// What one rank handed to the transport since the dispatcher was made; rows it kept for itself are not in it.
struct DispatchBytes {
  // Copies that leave this rank (dispatch) or come back to others (combine), times a row: the hidden elements,
  // and one more when values travel. The same for every dispatcher.
  std::uint64_t logical = 0;

  // Payload really put, with every count, header and notice.
  std::uint64_t wire = 0;
};

// All methods but the two accessors are collective: every rank calls them in the same order, with tokens or
// without. They return when the outputs are complete and the inputs may be changed. They throw what Channel
// throws.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;  // collective too: the transport must still be open on all ranks

  virtual const DispatcherCapabilities& capabilities() const = 0;
  virtual DispatchBytes bytes() const = 0;

  // Exchanges the counts and gives every copy its place. Throws Error(config) for top_k over the number of
  // experts.
  virtual std::unique_ptr<Route> route(const Routing&) = 0;

  // rows[place of (t, k)] = tokens[t], and row_values[place of (t, k)] = copy_values[t][k].
  // Forward it carries hidden states and gates; backward, with the same route, it is the gradient of
  // combine().
  virtual void dispatch(const Route&, TokenSide from, RowSide to) = 0;

  // tokens[t] = sum over k of rows[place of (t, k)], in the order of capabilities().tree (a token without
  // copies gets 0), and copy_values[t][k] = row_values[place of (t, k)] (0 for a dropped copy). Backward,
  // with the same route, it is the gradient of dispatch().
  virtual void combine(const Route&, RowSide from, TokenSide to) = 0;
};

struct DispatcherOptions {
  std::int64_t hidden = 0;
  ExpertPlacement placement;  // its rank_count is the channel's size
  ElementType element = ElementType::f32;
};

// Collective. The channel must outlive the dispatcher. Throws Error(config) for an unknown name, for experts
// that do not divide over the ranks, and for more ranks than the dispatcher can use.
std::unique_ptr<Dispatcher> make_dispatcher(std::string_view name, Channel&, const DispatcherOptions&);

std::vector<RegistryLine> dispatcher_lines();

}  // namespace mrb
