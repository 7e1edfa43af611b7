// How rows cross ranks: one contiguous block per pair of ranks, at offsets that both sides work out from
// sizes every rank knows, so that no message has to say where it goes.
//
//   send     [notice][block to 0][block to 1] ...       without a block to itself
//   receive  [notice of 0] ... [notice of R-1]
//            [block of 0][block of 1] ...               exchanges 0, 2, 4, ...
//            [block of 0][block of 1] ...               exchanges 1, 3, 5, ...
//
// Puts arrive in any order, and two ranks may have nothing to say to each other for many exchanges, so the
// data alone never proves that memory is free. Each rank therefore tells all others when it has read an
// exchange (a notice), and nobody starts exchange i before everybody has read exchange i - 2, which used the
// same memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "transport/channel.hpp"

namespace mrb {

// A number for each pair of ranks.
class PairTable {
 public:
  PairTable() = default;
  explicit PairTable(int ranks) : ranks_(ranks), values_(index(ranks, 0)) {}

  int ranks() const { return ranks_; }
  std::int64_t& at(int source, int target) { return values_[index(source, target)]; }
  std::int64_t at(int source, int target) const { return values_[index(source, target)]; }

 private:
  std::size_t index(int source, int target) const {
    return static_cast<std::size_t>(source) * static_cast<std::size_t>(ranks_) + static_cast<std::size_t>(target);
  }

  int ranks_ = 0;
  std::vector<std::int64_t> values_;
};

// Where the blocks of one kind of exchange lie, in bytes from the first block of the buffer they are in.
struct BlockPlan {
  std::vector<std::size_t> send_offset_bytes;     // by target, in this rank's send buffer
  std::vector<std::size_t> receive_offset_bytes;  // by source, in this rank's receive buffer
  std::vector<std::size_t> landing_offset_bytes;  // by target: this rank's block in the target's receive buffer
};

// What is allocated for blocks of so many bytes: registering is slow, and the next routing may need a little more.
constexpr std::size_t with_headroom(std::size_t bytes) {
  return bytes + bytes / 8;
}

class BlockExchange {
 public:
  explicit BlockExchange(Channel&);

  // Collective, unless an exception is on its way: waits until no peer writes here any more.
  ~BlockExchange();
  BlockExchange(const BlockExchange&) = delete;
  BlockExchange& operator=(const BlockExchange&) = delete;

  // Collective: all ranks pass the same sizes, the longest each block will be. Makes room for them on every
  // rank; the plan then stays good for as long as this object lives.
  BlockPlan plan(const PairTable& bytes_max);

  // Writes this rank's block for `target`. For its own rank that is receive memory already: nothing is copied
  // twice.
  using Fill = std::function<void(int target, std::byte* block)>;

  // Reads what came, by source. The blocks are gone when it returns. It may start the next exchange, and fill that
  // straight from these blocks.
  using Read = std::function<void(std::span<const std::byte* const> blocks)>;

  // Collective. Sends every block; `bytes` says how much of each planned block is used this time, the same on all
  // ranks, and an empty block sends nothing. Each leaves as soon as it is filled, to the next rank first and so on round
  // the ring, so that the ranks do not all write to the same one.
  void start(const BlockPlan&, const PairTable& bytes, std::string_view operation, const Fill&);

  // Collective. Waits for the blocks of the exchange that was started, and for its own to be sent.
  void finish(const Read&);

  void run(const BlockPlan& plan, const PairTable& bytes, std::string_view operation, const Fill& fill,
           const Read& read) {
    start(plan, bytes, operation, fill);
    finish(read);
  }

  // Payload put since the start by peer, notices included.
  std::span<const std::uint64_t> bytes_put_to() const { return bytes_put_to_; }

  // Of both buffers now.
  std::uint64_t buffer_bytes() const { return send_.size() + receive_.size(); }

 private:
  void grow(std::span<const std::size_t> send_bytes, std::span<const std::size_t> receive_bytes);
  void allocate();
  void put(int peer, Piece from, Piece to, std::size_t bytes, Tag tag);
  void wait_until_read(std::size_t half);
  void tell_all_read(Tag notice);
  std::size_t receive_base(int rank, std::size_t half) const;

  Channel& channel_;
  int me_;
  int ranks_;
  AlignedBuffer send_;
  AlignedBuffer receive_;
  RegionId send_region_ = 0;
  RegionId receive_region_ = 0;
  std::vector<std::size_t> send_capacity_;     // bytes of blocks, by rank: everyone knows everyone's
  std::vector<std::size_t> receive_capacity_;  // of each half
  std::size_t half_ = 0;                       // of the receive buffer, for the next exchange
  std::array<std::optional<Tag>, 2> unread_;   // by half: the notices not yet waited for
  std::vector<std::uint64_t> bytes_put_to_;    // by peer

  // Of the exchange under way:
  std::string operation_;
  Tag data_ = 0;
  Tag notice_ = 0;
  std::vector<std::size_t> expected_;       // bytes, by source
  std::vector<const std::byte*> received_;  // by source
};

}  // namespace mrb
