// Fixed memory that peers write into without asking, for dispatchers whose data must not wait for counts.
//
//   receive, twice   [header of rank 0] ... [header of rank R-1] [data]     operations take turns with the two halves
//   send             [header to 0] ... [header to R-1] [data]
//
// In every operation every rank puts a header to every other, whether or not it has data for it. That alone makes reuse
// safe: a rank that has waited for all headers of operation i knows that each peer had started i, so had read i - 1 and
// all before, and may write into the half that operation i - 1 used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "transport/channel.hpp"

namespace mrb {

class OneSided {
 public:
  struct Sizes {
    std::size_t header_bytes = 8;   // of one rank's header, at most
    std::size_t receive_bytes = 0;  // of the data in one half
    std::size_t send_bytes = 0;
  };

  // Collective; all ranks give the same sizes. The channel must outlive this object.
  OneSided(Channel&, const Sizes&);
  ~OneSided();
  OneSided(const OneSided&) = delete;
  OneSided& operator=(const OneSided&) = delete;

  // Memory of one rank with these sizes.
  static std::uint64_t buffer_bytes(const Sizes&, int ranks);

  // Begins an operation: the next half, new tags. The one before must have been waited for. Its headers have
  // `header_bytes`, on all ranks alike: 1 to the most there is room for.
  void begin(std::string_view operation, std::size_t header_bytes);

  // What this rank sends, and what it received. Its own header and data are never sent: put them where they are read.
  std::byte* header_to(int peer) const { return send_.data() + static_cast<std::size_t>(peer) * header_stride_; }
  std::byte* send_data() { return send_.data() + data_offset_; }
  const std::byte* header_from(int peer) const { return half() + static_cast<std::size_t>(peer) * header_stride_; }
  std::byte* received_data() { return half() + data_offset_; }

  void put_header(int peer);

  // `bytes` of send_data() from one offset to another in the peer's received_data(); 0 sends nothing.
  void put_data(int peer, std::size_t from_offset, std::size_t to_offset, std::size_t bytes);

  // Puts that put_data() of so many bytes makes.
  std::size_t puts_of(std::size_t bytes) const { return channel_.pieces(bytes); }

  void wait_headers();
  void wait_data(std::span<const std::size_t> puts_from);

  // The send memory may be filled again.
  void wait_sent() { channel_.wait_sent(operation_); }

  std::span<const std::uint64_t> bytes_put_to() const { return bytes_put_to_; }

 private:
  std::byte* half() const { return receive_.data() + half_ * half_stride_; }
  void put(int peer, std::size_t from, std::size_t to, std::size_t bytes, Tag tag);

  Channel& channel_;
  std::size_t ranks_;
  std::size_t header_bytes_ = 0;
  std::size_t header_stride_;
  std::size_t data_offset_;
  std::size_t half_stride_;
  AlignedBuffer send_;
  AlignedBuffer receive_;
  RegionId send_region_;
  RegionId receive_region_;
  std::size_t half_ = 0;
  Tag headers_ = 0;
  Tag data_ = 0;
  std::string operation_;
  std::vector<std::uint64_t> bytes_put_to_;  // by peer
};

}  // namespace mrb
