#include "dispatch/one_sided.hpp"

namespace mrb {

namespace {

constexpr std::size_t kLine = AlignedBuffer::kAlignment;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

}  // namespace

OneSided::OneSided(Channel& channel, const Sizes& sizes)
    : channel_(channel),
      ranks_(static_cast<std::size_t>(channel.size())),
      header_stride_(aligned(sizes.header_bytes)),
      data_offset_(ranks_ * header_stride_),
      half_stride_(data_offset_ + aligned(sizes.receive_bytes)),
      send_(data_offset_ + aligned(sizes.send_bytes)),
      receive_(2 * half_stride_),
      send_region_(channel.expose(send_.bytes())),
      receive_region_(channel.expose(receive_.bytes())),
      bytes_put_to_(ranks_) {}

// Every operation ends with all that was sent to this rank, so nothing is still to come.
OneSided::~OneSided() {
  channel_.withdraw(send_region_);
  channel_.withdraw(receive_region_);
}

std::uint64_t OneSided::buffer_bytes(const Sizes& sizes, int ranks) {
  const std::size_t headers = static_cast<std::size_t>(ranks) * aligned(sizes.header_bytes);
  return 3 * headers + 2 * aligned(sizes.receive_bytes) + aligned(sizes.send_bytes);
}

void OneSided::begin(std::string_view operation, std::size_t header_bytes) {
  operation_ = operation;
  header_bytes_ = header_bytes;
  half_ ^= 1;
  headers_ = channel_.next_tag();
  data_ = channel_.next_tag();
}

void OneSided::put_header(int peer) {
  put(peer, static_cast<std::size_t>(peer) * header_stride_, static_cast<std::size_t>(channel_.rank()) * header_stride_,
      header_bytes_, headers_);
}

void OneSided::put_data(int peer, std::size_t from_offset, std::size_t to_offset, std::size_t bytes) {
  if (bytes > 0) put(peer, data_offset_ + from_offset, data_offset_ + to_offset, bytes, data_);
}

void OneSided::put(int peer, std::size_t from, std::size_t to, std::size_t bytes, Tag tag) {
  channel_.put(peer, {send_region_, from}, {receive_region_, half_ * half_stride_ + to}, bytes, tag, operation_);
  bytes_put_to_[static_cast<std::size_t>(peer)] += bytes;
}

void OneSided::wait_headers() {
  channel_.wait_arrivals(headers_, std::vector<std::size_t>(ranks_, header_bytes_), operation_);
}

void OneSided::wait_data(std::span<const std::size_t> puts_from) {
  channel_.wait_puts(data_, puts_from, operation_);
}

}  // namespace mrb
