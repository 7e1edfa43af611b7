// fan_out_rows: copies every row to all of its places, in one buffer or in several that belong to peers. It permutes
// received rows to the order of experts, and forwards rows that crossed the network once to the ranks of a node.
//
// Launch: a block of 128 threads per row, at most 4096, looping; no shared memory.
// Needs:  row_bytes a multiple of 16. A peer may read its buffer once this kernel has ended and it was told so.
// Cost:   (row_count + places) * row_bytes. At 26,718 rows of 14,336 bytes (4096 tokens, top-k 8, 16 ranks: 6.523 rows a
//         token) and 32,768 places that is 853 MB, or 178 us at 4.8 TB/s (H200); forwarding is bound by the link instead.
// Checked against: src/dispatch/fan.cpp (fan_out_rows) and src/dispatch/forwarding.hpp (forward), bit for bit.
#include "kernels/device.cuh"
#include "kernels/dispatch/dispatch_kernels.hpp"

namespace mrb::kernels {

namespace {

constexpr unsigned kFanThreads = 128;

__global__ void __launch_bounds__(kFanThreads) fan_out_rows_kernel(FanOutArgs args) {
  const int words = args.row_bytes / static_cast<int>(kWordBytes);
  for (std::int64_t row = blockIdx.x; row < args.row_count; row += gridDim.x) {
    const std::int32_t first = args.first_place[row], end = args.first_place[row + 1];
    const auto* from = static_cast<const uint4*>(args.rows) + row * words;
    for (int word = static_cast<int>(threadIdx.x); word < words; word += static_cast<int>(kFanThreads)) {
      const uint4 value = from[word];
      for (std::int32_t i = first; i < end; ++i) {
        const RowPlace place = args.places[i];
        static_cast<uint4*>(args.buffers[place.buffer])[std::int64_t{place.row} * words + word] = value;
      }
    }
  }
}

}  // namespace

void fan_out_rows(const FanOutArgs& args, Stream stream) {
  require_multiple("fan_out_rows", "bytes of a row", args.row_bytes, kWordBytes);
  launch("fan_out_rows", fan_out_rows_kernel, {blocks_for(args.row_count, 1), kFanThreads}, stream, args);
}

}  // namespace mrb::kernels
