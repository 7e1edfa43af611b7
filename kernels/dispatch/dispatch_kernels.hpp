// Kernels that move tokens to experts and back: their arguments, and how to launch them. All pointers are the device's.
// Each .cu file opens with what its kernel costs and what it is checked against.
#pragma once

#include <cstdint>

#include "kernels/launch.hpp"

namespace mrb::kernels {

constexpr int kTopKMax = 32;
constexpr int kExpertsMax = 2048;

// What the 16-byte words of a row hold.
enum class Element { f32, bf16 };

// ---- assign_slots.cu

// Gives every copy its row among the copies of all experts, in the order of (expert, token, k).
struct AssignByExpertArgs {
  const std::int32_t* expert_ids;  // [copy_count], of (token, k); -1: dropped
  std::int32_t* chunk_counts;      // scratch: assign_scratch_rows(copy_count) * expert_count
  std::int32_t* counts;            // [expert_count]
  std::int32_t* first_row;         // [expert_count + 1]
  std::int32_t* row_of_copy;       // [copy_count]; -1 for a dropped copy
  std::int32_t* copy_of_row;       // [copy_count]; filled up to first_row[expert_count]
  std::int32_t copy_count;
  std::int32_t expert_count;
};
void assign_slots_by_expert(const AssignByExpertArgs&, Stream);

// Gives every token one row in each group of experts that it goes to, in the order of (group, token). A group is what one
// rank or one node holds.
struct AssignByGroupArgs {
  const std::int32_t* expert_ids;  // [token_count][top_k]; -1: dropped
  std::int32_t* chunk_counts;      // scratch: assign_scratch_rows(token_count) * group_count
  std::int32_t* counts;            // [group_count]
  std::int32_t* first_row;         // [group_count + 1]
  std::int32_t* row_of_copy;       // [token_count][top_k]: the row of the token in the copy's group; -1: dropped
  std::int32_t* token_of_row;      // [token_count * min(top_k, group_count)]; filled up to first_row[group_count]
  std::int32_t token_count;
  std::int32_t top_k;
  std::int32_t experts_per_group;
  std::int32_t group_count;
};
void assign_slots_by_group(const AssignByGroupArgs&, Stream);

constexpr std::int64_t kAssignChunk = 128;  // copies, or tokens, that one warp counts

constexpr std::int64_t assign_scratch_rows(std::int64_t items) {
  return (items + kAssignChunk - 1) / kAssignChunk;
}

// ---- pack_rows.cu

// packed[row_of_copy[t][k]] = tokens[t], each row once: by expert, by rank or by node, as the slots were assigned.
struct PackArgs {
  const void* tokens;               // [token_count][row_bytes], encoded or not
  const std::int32_t* row_of_copy;  // [token_count][top_k]; -1: dropped; copies of a token may share a row
  void* packed;                     // [rows][row_bytes]
  std::int32_t token_count;
  std::int32_t top_k;
  std::int32_t row_bytes;
};
void pack_rows(const PackArgs&, Stream);

// ---- fan_out_rows.cu

// Where a row goes to, or where a part of a sum is found.
struct RowPlace {
  std::int32_t buffer;
  std::int32_t row;
};

// buffers[place.buffer][place.row] = rows[r] for all places of row r. With one buffer this permutes received rows to the
// order of experts; with one for each rank of a node, mapped into this one's memory, it is the second hop.
struct FanOutArgs {
  const void* rows;                 // [row_count][row_bytes]
  const std::int32_t* first_place;  // [row_count + 1]
  const RowPlace* places;           // [first_place[row_count]]
  void* const* buffers;
  std::int32_t row_count;
  std::int32_t row_bytes;
};
void fan_out_rows(const FanOutArgs&, Stream);

// ---- sum_rows.cu

// sums[i] = ((part + part) + part) ... in f32, rounded once: what a rank or a node hands back of the rows it forwarded.
// A sum without parts is 0.
struct SumPartsArgs {
  const void* const* buffers;      // of rows [row_bytes]
  const std::int32_t* first_part;  // [sum_count + 1]
  const RowPlace* parts;           // [first_part[sum_count]], in the order in which they are added
  void* sums;                      // [sum_count][row_bytes]
  std::int32_t sum_count;
  std::int32_t row_bytes;
};
void sum_parts(const SumPartsArgs&, Element, Stream);

// tokens[t] = sum over ascending k of weights[t][k] * rows[row_of_copy[t][k]], in f32, rounded once.
struct UnpermuteArgs {
  const void* rows;                 // [rows][row_bytes]
  const std::int32_t* row_of_copy;  // [token_count][top_k]; -1: dropped
  const float* weights;             // [token_count][top_k]; null: all 1
  void* tokens;                     // [token_count][row_bytes]
  std::int32_t token_count;
  std::int32_t top_k;
  std::int32_t row_bytes;
};
void unpermute_rows(const UnpermuteArgs&, Element, Stream);

// The way back: drows[row_of_copy[t][k]] = weights[t][k] * dtokens[t], and dweights[t][k] = dtokens[t] . rows[that row]
// (0 for a dropped copy).
struct UnpermuteBackwardArgs {
  const void* dtokens;              // [token_count][row_bytes]
  const void* rows;                 // [rows][row_bytes], as they were on the way forward
  const std::int32_t* row_of_copy;  // [token_count][top_k]; no row twice
  const float* weights;             // [token_count][top_k]
  void* drows;                      // [rows][row_bytes]
  float* dweights;                  // [token_count][top_k]
  std::int32_t token_count;
  std::int32_t top_k;
  std::int32_t row_bytes;
};
void unpermute_rows_backward(const UnpermuteBackwardArgs&, Element, Stream);

// ---- cast_fp8.cu

enum class Scales { f32, power_of_two };  // power_of_two: one byte crosses, the exponent

// Rows to E4M3 with one scale for each block of 128 numbers, and back. An encoded row is [hidden codes][scales].
struct CastArgs {
  const void* from;  // rows of `hidden` numbers; back: encoded rows, encoded_stride_bytes apart
  void* to;          // encoded rows, encoded_stride_bytes apart; back: rows of `hidden` numbers
  std::int32_t row_count;
  std::int32_t hidden;
  std::int32_t encoded_stride_bytes;  // at least encoded_row_bytes(), and a multiple of 16
};
void cast_to_fp8(const CastArgs&, Element, Scales, Stream);
void cast_from_fp8(const CastArgs&, Element, Scales, Stream);

constexpr int kScaleBlock = 128;

constexpr std::int32_t encoded_row_bytes(std::int32_t hidden, Scales scales) {
  return hidden + (hidden + kScaleBlock - 1) / kScaleBlock * (scales == Scales::f32 ? 4 : 1);
}

// ---- low_latency.cu

// Rows straight into fixed slots of the experts' ranks, whose memory is mapped here. On each rank, for each of two halves
// that operations take turns with:
//
//   slots      [source][local expert][tokens_max] of row_bytes
//   counts     [source][local expert]: rows, filled in with every operation
// and for both together, all 0 before the first operation:
//   announced  [source]: operation % 4096 << 20 | rows from it in this operation
//   arrived    [source]: rows from it so far
//   taken      [source]: rows from it before this operation
//
// Nothing is inferred from order: a receiver counts rows, and knows by the announcement how many there are.
struct LowLatencyPeer {
  void* slots;
  std::uint32_t* counts;
  std::uint32_t* announced;
  std::uint32_t* arrived;
};

struct LowLatencyShape {
  std::int32_t rank_count;
  std::int32_t experts_per_rank;
  std::int32_t tokens_max;  // of one rank, so of one rank for one expert
  std::int32_t row_bytes;
};

struct LowLatencyPutArgs {
  LowLatencyShape shape;
  const void* tokens;               // [token_count][row_bytes]
  const std::int32_t* copy_of_row;  // of assign_slots_by_expert()
  const std::int32_t* first_row;    // the same; [expert_count + 1]
  const LowLatencyPeer* peers;      // [rank_count], this rank among them
  std::int32_t rank;
  std::int32_t copy_count;  // at most, dropped ones among them
  std::int32_t top_k;
  std::uint32_t operation;  // from 1, the same on all ranks
};
void low_latency_put(const LowLatencyPutArgs&, Stream);

// What a source still owed when the time was over; all 0 when everything came.
struct LowLatencyDebt {
  std::uint32_t is_silent;  // 1: not even announced
  std::uint32_t rows_announced;
  std::uint32_t rows_arrived;
};

struct LowLatencyWaitArgs {
  LowLatencyShape shape;
  const std::uint32_t* announced;
  const std::uint32_t* arrived;
  std::uint32_t* taken;
  LowLatencyDebt* debts;  // [rank_count], written
  std::uint64_t timeout_ns;
  std::uint32_t operation;
};
void low_latency_wait(const LowLatencyWaitArgs&, Stream);

// rows = the filled slots, in the order of (local expert, source, i); after the wait.
struct LowLatencyTakeArgs {
  LowLatencyShape shape;
  const void* slots;
  const std::uint32_t* counts;
  void* rows;             // [sum of counts][row_bytes]
  std::int32_t* rows_of;  // [experts_per_rank]
};
void low_latency_take(const LowLatencyTakeArgs&, Stream);

}  // namespace mrb::kernels
