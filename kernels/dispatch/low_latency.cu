// The low-latency exchange in peer-mapped memory: put, wait, take (the layout is drawn in dispatch_kernels.hpp).
//
// low_latency_put   one warp per copy writes its row to the slot of the experts' rank, then counts it there with a
//                   release; one warp per rank writes the counts, then announces them. Nobody waits.
// low_latency_wait  one lane per source reads the announcement, and counts until so many rows have come; a time limit ends
//                   it, and says what is owed.
// low_latency_take  one block per (local expert, source) moves the filled slots together.
//
// Needs:  row_bytes a multiple of 16; fewer than 2^20 rows from one rank in one operation. A half may be used again once
//         its owner has waited for the operation after it: every rank announces in every operation, with rows or without.
// Cost:   put (1 + top_k) * token_count * row_bytes and one remote atomic per copy; take twice the rows that came. At 128
//         tokens, hidden 7168 in bf16, top-k 8: 14.7 MB out, 33 us at 450 GB/s (NVLink of an H200, one direction).
// Checked against: src/dispatch/low_latency.cpp's slots, and src/dispatch/reference.cpp's rows, bit for bit; the wait runs
//         beside the puts, whose words arrive late and in any order.
#include "kernels/device.cuh"
#include "kernels/dispatch/dispatch_kernels.hpp"

namespace mrb::kernels {

namespace {

constexpr unsigned kPutThreads = 128;
constexpr unsigned kTakeThreads = 128;
constexpr int kRowBits = 20;  // of an announcement; the others are the operation's
constexpr std::uint32_t kRowMask = (1u << kRowBits) - 1;
constexpr std::uint32_t kOperations = 1u << (32 - kRowBits);

__device__ void announce(const LowLatencyPutArgs& args, int rank) {
  const int experts = args.shape.experts_per_rank, first_expert = rank * experts;
  const LowLatencyPeer peer = args.peers[rank];
  for (int local = lane_index(); local < experts; local += kWarpSize) {
    const std::int32_t* row = args.first_row + first_expert + local;
    store_for_peer(peer.counts + args.rank * experts + local, static_cast<std::uint32_t>(row[1] - row[0]));
  }
  __syncwarp();  // the release below speaks for all lanes
  if (lane_index() != 0) return;
  const auto rows = static_cast<std::uint32_t>(args.first_row[first_expert + experts] - args.first_row[first_expert]);
  store_release(peer.announced + args.rank, args.operation % kOperations << kRowBits | rows);
}

// The expert whose rows `row` is among.
__device__ int expert_of_row(const std::int32_t* first_row, int experts, std::int32_t row) {
  int first = 0, end = experts;  // the answer is in [first, end)
  while (end - first > 1) {
    const int middle = (first + end) / 2;
    if (first_row[middle] <= row) {
      first = middle;
    } else {
      end = middle;
    }
  }
  return first;
}

__device__ void put_row(const LowLatencyPutArgs& args, std::int32_t row) {
  const LowLatencyShape& shape = args.shape;
  const int expert = expert_of_row(args.first_row, shape.rank_count * shape.experts_per_rank, row);
  const LowLatencyPeer peer = args.peers[expert / shape.experts_per_rank];
  const std::int64_t run = std::int64_t{args.rank} * shape.experts_per_rank + expert % shape.experts_per_rank;
  const std::int64_t slot = run * shape.tokens_max + (row - args.first_row[expert]);
  const int words = shape.row_bytes / static_cast<int>(kWordBytes);
  const auto* from = static_cast<const uint4*>(args.tokens) + std::int64_t{args.copy_of_row[row] / args.top_k} * words;
  auto* to = static_cast<uint4*>(peer.slots) + slot * words;
#pragma unroll 4
  for (int word = lane_index(); word < words; word += kWarpSize) store_for_peer(to + word, from[word]);
  __syncwarp();  // the release below speaks for all lanes
  if (lane_index() == 0) add_release(peer.arrived + args.rank, 1);
}

__global__ void __launch_bounds__(kPutThreads) low_latency_put_kernel(LowLatencyPutArgs args) {
  for (std::int64_t rank = warp_index(); rank < args.shape.rank_count; rank += warp_count()) {
    announce(args, static_cast<int>(rank));
  }
  const std::int32_t rows = args.first_row[args.shape.rank_count * args.shape.experts_per_rank];
  for (std::int64_t row = warp_index(); row < rows; row += warp_count()) put_row(args, static_cast<std::int32_t>(row));
}

// One block; a thread per source, looping.
__global__ void low_latency_wait_kernel(LowLatencyWaitArgs args) {
  const std::uint64_t deadline_ns = time_ns() + args.timeout_ns;
  for (int source = static_cast<int>(threadIdx.x); source < args.shape.rank_count;
       source += static_cast<int>(blockDim.x)) {
    LowLatencyDebt debt{};
    std::uint32_t announcement = load_acquire(args.announced + source);
    while (announcement >> kRowBits != args.operation % kOperations && time_ns() < deadline_ns) {
      pause();
      announcement = load_acquire(args.announced + source);
    }
    if (announcement >> kRowBits != args.operation % kOperations) {
      debt.is_silent = 1;
    } else {
      const std::uint32_t rows = announcement & kRowMask, before = args.taken[source];
      std::uint32_t arrived = load_acquire(args.arrived + source) - before;
      while (arrived != rows && time_ns() < deadline_ns) {
        pause();
        arrived = load_acquire(args.arrived + source) - before;
      }
      args.taken[source] = before + rows;
      if (arrived != rows) debt = {0, rows, arrived};
    }
    args.debts[source] = debt;
  }
}

// A block per (local expert, source).
__global__ void __launch_bounds__(kTakeThreads) low_latency_take_kernel(LowLatencyTakeArgs args) {
  MRB_SHARED(std::uint32_t, rows_before, kTakeThreads / kWarpSize);
  const int ranks = args.shape.rank_count, experts = args.shape.experts_per_rank;
  const int local = static_cast<int>(blockIdx.x) / ranks, source = static_cast<int>(blockIdx.x) % ranks;
  std::uint32_t before = 0;
  for (int run = static_cast<int>(threadIdx.x); run < local * ranks + source; run += static_cast<int>(kTakeThreads)) {
    before += args.counts[run % ranks * experts + run / ranks];
  }
  before = __reduce_add_sync(kAllLanes, before);
  if (lane_index() == 0) rows_before[threadIdx.x / kWarpSize] = before;
  __syncthreads();
  std::int64_t first = 0;
  for (int warp = 0; warp < static_cast<int>(kTakeThreads) / kWarpSize; ++warp) first += rows_before[warp];

  const int words = args.shape.row_bytes / static_cast<int>(kWordBytes);
  const int run = source * experts + local;
  const auto* from = static_cast<const uint4*>(args.slots) + std::int64_t{run} * args.shape.tokens_max * words;
  auto* to = static_cast<uint4*>(args.rows) + first * words;
  for (std::int64_t word = threadIdx.x; word < std::int64_t{args.counts[run]} * words; word += kTakeThreads) {
    to[word] = from[word];
  }
  if (source != 0 || threadIdx.x != 0) return;
  std::uint32_t rows = 0;
  for (int other = 0; other < ranks; ++other) rows += args.counts[other * experts + local];
  args.rows_of[local] = static_cast<std::int32_t>(rows);
}

}  // namespace

void low_latency_put(const LowLatencyPutArgs& args, Stream stream) {
  require_multiple("low_latency_put", "bytes of a row", args.shape.row_bytes, kWordBytes);
  require_range("low_latency_put", "number of copies", args.copy_count, 0, kRowMask);
  const std::int64_t warps = args.copy_count > args.shape.rank_count ? args.copy_count : args.shape.rank_count;
  launch("low_latency_put", low_latency_put_kernel, {blocks_for(warps, kPutThreads / kWarpSize), kPutThreads}, stream,
         args);
}

void low_latency_wait(const LowLatencyWaitArgs& args, Stream stream) {
  launch("low_latency_wait", low_latency_wait_kernel, {1, 128}, stream, args);
}

void low_latency_take(const LowLatencyTakeArgs& args, Stream stream) {
  require_multiple("low_latency_take", "bytes of a row", args.shape.row_bytes, kWordBytes);
  launch("low_latency_take", low_latency_take_kernel,
         {static_cast<unsigned>(args.shape.rank_count * args.shape.experts_per_rank), kTakeThreads}, stream, args);
}

}  // namespace mrb::kernels
