// Count and slot assignment: where every copy (by expert) or token (by rank, by node) goes, in an order that depends on
// the routing alone, so that a run can be repeated bit for bit.
//
//   expert 0   copies of chunk 0, copies of chunk 1, ...
//   expert 1   copies of chunk 0, ...
//
// Three launches: count each chunk; one block turns the counts into the first row of (group, chunk); each chunk places its
// copies. One warp per chunk, so that the copies of a chunk keep their order without sorting: 32 at a time, lanes with the
// same expert (match), or with a token for the same group (ballot), stand in a row in the order of lanes.
//
// Launch: a warp per chunk of 128, 4 warps per block; by expert each with its counters in shared memory.
// Cost:   reads the expert ids twice and writes one or two numbers per copy: 16 bytes per copy. At 4096 tokens, top-k 8
//         that is 0.5 MB, or 0.1 us at 4.8 TB/s: three launches and the latency of the scan are what it costs.
// Checked against: src/dispatch/sent_rows.cpp (rows_by_copy, rows_by_rank, rows_by_node), equal.
#include "kernels/device.cuh"
#include "kernels/dispatch/dispatch_kernels.hpp"

namespace mrb::kernels {

namespace {

constexpr int kAssignWarps = 4;  // per block

__device__ unsigned lanes_below() {
  return (1u << lane_index()) - 1;
}

__device__ std::int64_t chunk_end(std::int64_t chunk, std::int64_t items) {
  const std::int64_t end = (chunk + 1) * kAssignChunk;
  return end < items ? end : items;
}

__global__ void count_by_expert(AssignByExpertArgs args) {
  MRB_SHARED_OF_LAUNCH(std::int32_t, counters_of_warps);
  std::int32_t* counters = counters_of_warps + threadIdx.x / kWarpSize * args.expert_count;
  const std::int64_t chunk = warp_index();
  if (chunk >= assign_scratch_rows(args.copy_count)) return;
  for (int expert = lane_index(); expert < args.expert_count; expert += kWarpSize) counters[expert] = 0;
  __syncwarp();
  for (std::int64_t copy = chunk * kAssignChunk + lane_index(); copy < chunk_end(chunk, args.copy_count);
       copy += kWarpSize) {
    if (args.expert_ids[copy] >= 0) atomicAdd(&counters[args.expert_ids[copy]], 1);
  }
  __syncwarp();
  for (int expert = lane_index(); expert < args.expert_count; expert += kWarpSize) {
    args.chunk_counts[chunk * args.expert_count + expert] = counters[expert];
  }
}

// chunk_counts[chunk][group] becomes the sum over the chunks before; counts[group] over all; first_row[group] over the
// groups before. One block.
__global__ void scan_counts(std::int32_t* chunk_counts, std::int64_t chunks, std::int32_t groups, std::int32_t* counts,
                            std::int32_t* first_row) {
  for (int group = static_cast<int>(threadIdx.x); group < groups; group += static_cast<int>(blockDim.x)) {
    std::int32_t sum = 0;
#pragma unroll 4
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      std::int32_t& count = chunk_counts[chunk * groups + group];
      const std::int32_t before = sum;
      sum += count;
      count = before;
    }
    counts[group] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= kWarpSize) return;
  std::int32_t first = 0;
  for (int start = 0; start < groups; start += kWarpSize) {
    const int group = start + lane_index();
    std::int32_t sum = group < groups ? counts[group] : 0;
    const std::int32_t mine = sum;
    for (unsigned distance = 1; distance < kWarpSize; distance *= 2) {
      const std::int32_t before = __shfl_up_sync(kAllLanes, sum, distance);
      if (lane_index() >= static_cast<int>(distance)) sum += before;
    }
    if (group < groups) first_row[group] = first + sum - mine;
    first += __shfl_sync(kAllLanes, sum, kWarpSize - 1);
  }
  if (lane_index() == 0) first_row[groups] = first;
}

__global__ void place_by_expert(AssignByExpertArgs args) {
  MRB_SHARED_OF_LAUNCH(std::int32_t, counters_of_warps);
  std::int32_t* next_row = counters_of_warps + threadIdx.x / kWarpSize * args.expert_count;
  const std::int64_t chunk = warp_index();
  if (chunk >= assign_scratch_rows(args.copy_count)) return;
  for (int expert = lane_index(); expert < args.expert_count; expert += kWarpSize) {
    next_row[expert] = args.first_row[expert] + args.chunk_counts[chunk * args.expert_count + expert];
  }
  __syncwarp();
  const std::int64_t end = chunk_end(chunk, args.copy_count);
  for (std::int64_t start = chunk * kAssignChunk; start < end; start += kWarpSize) {
    const std::int64_t copy = start + lane_index();
    const std::int32_t expert = copy < end ? args.expert_ids[copy] : -1;
    const unsigned same = __match_any_sync(kAllLanes, expert);
    const int before = __popc(same & lanes_below());
    const std::int32_t row = expert < 0 ? -1 : next_row[expert] + before;
    __syncwarp();  // all have read before the first of each expert writes
    if (expert >= 0 && before == 0) next_row[expert] += __popc(same);
    __syncwarp();
    if (copy < end) args.row_of_copy[copy] = row;
    if (row >= 0) args.copy_of_row[row] = static_cast<std::int32_t>(copy);
  }
}

// Bit i: the token has a copy for group first_group + i.
__device__ unsigned groups_of_token(const AssignByGroupArgs& args, std::int64_t token, int first_group) {
  unsigned groups = 0;
  for (int k = 0; k < args.top_k; ++k) {
    const std::int32_t expert = args.expert_ids[token * args.top_k + k];
    const int group = expert / args.experts_per_group - first_group;
    if (expert >= 0 && group >= 0 && group < kWarpSize) groups |= 1u << group;
  }
  return groups;
}

// Lane i counts group first_group + i.
__global__ void count_by_group(AssignByGroupArgs args) {
  const std::int64_t chunk = warp_index();
  if (chunk >= assign_scratch_rows(args.token_count)) return;
  const std::int64_t end = chunk_end(chunk, args.token_count);
  for (int first_group = 0; first_group < args.group_count; first_group += kWarpSize) {
    std::int32_t count = 0;
    for (std::int64_t start = chunk * kAssignChunk; start < end; start += kWarpSize) {
      const std::int64_t token = start + lane_index();
      const unsigned groups = token < end ? groups_of_token(args, token, first_group) : 0;
      for (int i = 0; i < kWarpSize && first_group + i < args.group_count; ++i) {
        const unsigned members = __ballot_sync(kAllLanes, static_cast<int>(groups >> i & 1));
        if (i == lane_index()) count += __popc(members);
      }
    }
    const int group = first_group + lane_index();
    if (group < args.group_count) args.chunk_counts[chunk * args.group_count + group] = count;
  }
}

__global__ void place_by_group(AssignByGroupArgs args) {
  const std::int64_t chunk = warp_index();
  if (chunk >= assign_scratch_rows(args.token_count)) return;
  const std::int64_t end = chunk_end(chunk, args.token_count);
  for (int first_group = 0; first_group < args.group_count; first_group += kWarpSize) {
    const int mine = first_group + lane_index();
    std::int32_t next_row = 0;  // of the lane's group
    if (mine < args.group_count) {
      next_row = args.first_row[mine] + args.chunk_counts[chunk * args.group_count + mine];
    }
    for (std::int64_t start = chunk * kAssignChunk; start < end; start += kWarpSize) {
      const std::int64_t token = start + lane_index();
      const unsigned groups = token < end ? groups_of_token(args, token, first_group) : 0;
      for (int i = 0; i < kWarpSize && first_group + i < args.group_count; ++i) {
        const unsigned members = __ballot_sync(kAllLanes, static_cast<int>(groups >> i & 1));
        const std::int32_t row = __shfl_sync(kAllLanes, next_row, i) + __popc(members & lanes_below());
        if (i == lane_index()) next_row += __popc(members);
        if ((groups >> i & 1) == 0) continue;
        args.token_of_row[row] = static_cast<std::int32_t>(token);
        for (int k = 0; k < args.top_k; ++k) {
          const std::int32_t expert = args.expert_ids[token * args.top_k + k];
          if (expert >= 0 && expert / args.experts_per_group == first_group + i) {
            args.row_of_copy[token * args.top_k + k] = row;
          }
        }
      }
    }
  }
  for (std::int64_t copy = chunk * kAssignChunk * args.top_k + lane_index(); copy < end * args.top_k;
       copy += kWarpSize) {
    if (args.expert_ids[copy] < 0) args.row_of_copy[copy] = -1;
  }
}

constexpr unsigned kScanThreads = 256;

}  // namespace

void assign_slots_by_expert(const AssignByExpertArgs& args, Stream stream) {
  require_range("assign_slots_by_expert", "expert_count", args.expert_count, 1, kExpertsMax);
  const std::int64_t chunks = assign_scratch_rows(args.copy_count);
  const LaunchShape chunk_warps{static_cast<unsigned>((chunks + kAssignWarps - 1) / kAssignWarps),
                                kAssignWarps * kWarpSize,
                                kAssignWarps * sizeof(std::int32_t) * static_cast<std::size_t>(args.expert_count)};
  launch("count_by_expert", count_by_expert, chunk_warps, stream, args);
  launch("scan_counts", scan_counts, {1, kScanThreads}, stream, args.chunk_counts, chunks, args.expert_count,
         args.counts, args.first_row);
  launch("place_by_expert", place_by_expert, chunk_warps, stream, args);
}

void assign_slots_by_group(const AssignByGroupArgs& args, Stream stream) {
  require_range("assign_slots_by_group", "top_k", args.top_k, 1, kTopKMax);
  require_range("assign_slots_by_group", "group_count", args.group_count, 1, kExpertsMax);
  const std::int64_t chunks = assign_scratch_rows(args.token_count);
  const LaunchShape chunk_warps{static_cast<unsigned>((chunks + kAssignWarps - 1) / kAssignWarps),
                                kAssignWarps * kWarpSize};
  launch("count_by_group", count_by_group, chunk_warps, stream, args);
  launch("scan_counts", scan_counts, {1, kScanThreads}, stream, args.chunk_counts, chunks, args.group_count,
         args.counts, args.first_row);
  launch("place_by_group", place_by_group, chunk_warps, stream, args);
}

}  // namespace mrb::kernels
