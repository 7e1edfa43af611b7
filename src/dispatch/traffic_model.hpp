// How many rows and bytes the wire patterns need: counted from real routing, and expected for uniform routing.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dispatch/dispatcher.hpp"

namespace mrb {

// One rank's rows in one dispatch, by pattern.
struct PatternRows {
  std::int64_t per_copy = 0;  // one row per (token, expert)
  std::int64_t per_rank = 0;  // one row per (token, rank)
  std::int64_t per_node = 0;  // one row per (token, node)
  std::int64_t to_all = 0;    // every row to every rank, or to every node: once over each network interface of a ring
};

struct RoutedRows {
  PatternRows all;
  PatternRows off_rank;  // those that leave this rank
  PatternRows off_node;  // those that leave its node
};

RoutedRows count_rows(const Routing&, const ExpertPlacement&, int rank);

// Groups (ranks or nodes) that the experts of one token are in, of `groups` equal ones, if each set of top_k different
// experts is as likely: D(g) = g (1 - C(E - E/g, K) / C(E, K)).
double expected_groups(int experts, int top_k, int groups);
double expected_groups(const DispatcherOptions&, int groups);

// What `rank` has put to each peer, split by node.
DispatchBytes wire_bytes(std::span<const std::uint64_t> put_to, const ExpertPlacement&, int rank,
                         std::uint64_t logical);

// Bytes of one encoded row and of one value.
std::size_t row_bytes(const DispatcherOptions&, WireType);
std::size_t value_bytes(const DispatcherOptions&);

// What the blocks of one BlockExchange hold on each rank, at most. Those to itself are received, and not sent.
struct BlockRows {
  double rows_received = 0, copies_received = 0;
  double rows_sent = 0, copies_sent = 0;
};

// `rows` rows and `copies` values from each rank, evenly to `peers` ranks of which it is one.
BlockRows even_blocks(double rows, double copies, int peers);

// Memory of that exchange.
std::uint64_t block_buffer_bytes(const DispatcherOptions&, const BlockRows&);
std::string block_buffer_formula(const std::string& rows_in_words, const BlockRows&);

}  // namespace mrb
