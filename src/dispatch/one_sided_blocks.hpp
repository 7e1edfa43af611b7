// One block for each pair of ranks in OneSided memory, for operations whose sizes all ranks know: the block of each source
// follows that of the source before.
//
//   block   [encoded rows][values][entries]
//
// Entries are words that say what the rows are for, where the target does not know.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dispatch/forwarding.hpp"
#include "dispatch/one_sided.hpp"

namespace mrb {

struct BlockSizes {
  PairTable rows, copies;  // from the rank that fills the block to the one that reads it
  std::size_t row_bytes = 0;
  Values values = Values::none;
  bool has_entries = false;
};

// Bytes of one row with so many copies, with all values and entries.
inline std::size_t block_row_bytes(std::size_t row_bytes, std::size_t copies, std::size_t value_bytes) {
  return row_bytes + copies * value_bytes +
         static_cast<std::size_t>(entries_of(1, static_cast<std::int64_t>(copies))) * sizeof(std::uint32_t);
}

// T is float or double. begin(), the filling, exchange() and the reading come in this order, from one thread at a time.
template <class T>
class OneSidedBlocks {
 public:
  // The memory must outlive this object.
  OneSidedBlocks(OneSided& memory, int rank) : memory_(memory), me_(rank) {}

  void begin(std::string_view operation, const BlockSizes& sizes) {
    memory_.begin(operation, kBareHeaderBytes);
    sizes_ = sizes;
    from_ = blocks_on(me_);
    to_.clear();
    landing_.clear();
    std::size_t offset = 0;
    for (int target = 0; target < ranks(); ++target) {
      landing_.push_back(blocks_on(target)[static_cast<std::size_t>(me_)].offset);
      to_.push_back(block_at(offset, me_, target));
      if (target != me_) offset = aligned(offset + to_.back().bytes);
    }
  }

  // What this rank sends. Its own block is where it will be read.
  RowBlock<std::byte, T> to(int target) {
    std::byte* const block = begin_of(target);
    return {block,
            sizes_.values == Values::sent ? reinterpret_cast<T*>(block + at(to_, target).values_offset) : nullptr};
  }
  std::uint32_t* entries_to(int target) {
    return reinterpret_cast<std::uint32_t*>(begin_of(target) + at(to_, target).entries_offset);
  }

  // Sends all blocks, waits for those of all sources and until the send memory is free. Goes round the ring from the next
  // rank on, so that the ranks do not all write to the same one.
  void exchange() {
    for (int step = 1; step < ranks(); ++step) {
      const int peer = (me_ + step) % ranks();
      memory_.put_header(peer);
      memory_.put_data(peer, at(to_, peer).offset, landing_[static_cast<std::size_t>(peer)], at(to_, peer).bytes);
    }
    memory_.wait_headers();
    std::vector<std::size_t> puts;
    for (const Block& block : from_) puts.push_back(memory_.puts_of(block.bytes));
    memory_.wait_data(puts);
    memory_.wait_sent();
  }

  // What came, until the operation after the next.
  RowBlock<const std::byte, const T> from(int source) {
    const std::byte* const block = memory_.received_data() + at(from_, source).offset;
    return {block, sizes_.values == Values::sent ? reinterpret_cast<const T*>(block + at(from_, source).values_offset)
                                                 : nullptr};
  }
  const std::uint32_t* entries_from(int source) {
    return reinterpret_cast<const std::uint32_t*>(memory_.received_data() + at(from_, source).offset +
                                                  at(from_, source).entries_offset);
  }
  std::int64_t rows_from(int source) const { return sizes_.rows.at(source, me_); }

 private:
  static constexpr std::size_t kLine = AlignedBuffer::kAlignment;
  static constexpr std::size_t kBareHeaderBytes = 8;  // of one whose arrival is all it says

  struct Block {
    std::size_t offset = 0;
    std::size_t values_offset = 0;  // from the block's beginning, as the next
    std::size_t entries_offset = 0;
    std::size_t bytes = 0;
  };

  static std::size_t aligned(std::size_t bytes, std::size_t to = kLine) { return (bytes + to - 1) / to * to; }
  static const Block& at(const std::vector<Block>& blocks, int rank) { return blocks[static_cast<std::size_t>(rank)]; }

  int ranks() const { return sizes_.rows.ranks(); }

  std::byte* begin_of(int target) {
    return target == me_ ? memory_.received_data() + landing_[static_cast<std::size_t>(me_)]
                         : memory_.send_data() + at(to_, target).offset;
  }

  Block block_at(std::size_t offset, int source, int target) const {
    const std::int64_t rows = sizes_.rows.at(source, target), copies = sizes_.copies.at(source, target);
    Block block{.offset = offset};
    block.values_offset = aligned(static_cast<std::size_t>(rows) * sizes_.row_bytes, sizeof(T));
    block.entries_offset =
        block.values_offset + (sizes_.values == Values::sent ? static_cast<std::size_t>(copies) * sizeof(T) : 0);
    const std::int64_t entries = sizes_.has_entries ? entries_of(rows, copies) : 0;
    block.bytes = block.entries_offset + static_cast<std::size_t>(entries) * sizeof(std::uint32_t);
    return block;
  }

  // Where the block of each source lies on `target`.
  std::vector<Block> blocks_on(int target) const {
    std::vector<Block> blocks;
    std::size_t offset = 0;
    for (int source = 0; source < ranks(); ++source) {
      blocks.push_back(block_at(offset, source, target));
      offset = aligned(offset + blocks.back().bytes);
    }
    return blocks;
  }

  OneSided& memory_;
  int me_;
  BlockSizes sizes_;  // of the operation under way, as the rest
  std::vector<Block> to_, from_;
  std::vector<std::size_t> landing_;  // by target: this rank's block there
};

}  // namespace mrb
