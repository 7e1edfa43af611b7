#include "transport/collectives.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace mrb {

namespace {

// all_reduce_max needs one of these per rank; they lie before everything else.
constexpr std::size_t kMaxSlotBytes = Collectives::kMaxValues * sizeof(std::int64_t);

}  // namespace

Collectives::Collectives(Channel& channel) : channel_(channel) {
  reserve(0);
}

Collectives::~Collectives() {
  if (!exposed_) return;
  channel_.withdraw(send_region_);
  channel_.withdraw(receive_region_);
}

// Layout of both regions, with S = size and C = slice_capacity_bytes_:
//   send     [1 max slot][S slices of C: contributions, by owner][reduced slice of C]
//   receive  [2 x S max slots, by parity and sender][S slices of C: contributions to mine, by sender]
//            [S slices of C: reduced, by owner]
// Places depend on the capacity, not on the input: a peer that is already in the next sum, of another length,
// must not write over results that this rank has yet to read.
void Collectives::reserve(std::size_t slice_bytes) {
  if (exposed_ && slice_bytes <= slice_capacity_bytes_) return;
  if (exposed_) {
    all_reduce_max(0);  // nobody grows while a peer may still write into the old memory
    channel_.withdraw(send_region_);
    channel_.withdraw(receive_region_);
  }
  const auto ranks = static_cast<std::size_t>(channel_.size());
  const std::size_t line = AlignedBuffer::kAlignment;
  slice_capacity_bytes_ = (slice_bytes + line - 1) / line * line;
  send_ = AlignedBuffer(kMaxSlotBytes + (ranks + 1) * slice_capacity_bytes_);
  receive_ = AlignedBuffer(2 * ranks * (kMaxSlotBytes + slice_capacity_bytes_));
  send_region_ = channel_.expose(send_.bytes());
  receive_region_ = channel_.expose(receive_.bytes());
  exposed_ = true;
}

template <class T>
void Collectives::sum(std::span<T> values) {
  const auto ranks = static_cast<std::size_t>(channel_.size());
  if (ranks == 1 || values.empty()) return;
  const auto me = static_cast<std::size_t>(channel_.rank());
  // Every rank owns a slice, none is empty: each exchange then involves every pair of ranks, so a rank that
  // is ahead by one exchange has proof that its peers have read what it is about to overwrite.
  const std::size_t slice = (values.size() + ranks - 1) / ranks;
  const std::size_t slice_bytes = slice * sizeof(T);
  reserve(slice_bytes);
  const auto first = [&](std::size_t owner) { return std::min(owner * slice, values.size()); };
  const auto count = [&](std::size_t owner) { return std::min(values.size(), (owner + 1) * slice) - first(owner); };

  const std::size_t stride = slice_capacity_bytes_;
  const std::size_t reduced_offset = kMaxSlotBytes + ranks * stride;
  const std::size_t received_offset = 2 * ranks * kMaxSlotBytes;
  const std::size_t results_offset = received_offset + ranks * stride;
  const std::vector<std::size_t> expected(ranks, slice_bytes);

  const Tag scatter = channel_.next_tag();
  const Tag gather = channel_.next_tag();
  for (std::size_t step = 1; step < ranks; ++step) {
    const std::size_t peer = (me + step) % ranks;
    const std::size_t place = kMaxSlotBytes + peer * stride;
    std::memcpy(send_.data() + place, values.data() + first(peer), count(peer) * sizeof(T));
    channel_.put(static_cast<int>(peer), {send_region_, place}, {receive_region_, received_offset + me * stride},
                 slice_bytes, scatter, "all_reduce");
  }
  channel_.wait_arrivals(scatter, expected, "all_reduce");

  T* total = reinterpret_cast<T*>(send_.data() + reduced_offset);
  std::fill(total, total + slice, T{0});
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::byte* received = receive_.data() + received_offset + rank * stride;
    const T* part = rank == me ? values.data() + first(me) : reinterpret_cast<const T*>(received);
    for (std::size_t i = 0; i < count(me); ++i) total[i] += part[i];
  }
  for (std::size_t step = 1; step < ranks; ++step) {
    channel_.put(static_cast<int>((me + step) % ranks), {send_region_, reduced_offset},
                 {receive_region_, results_offset + me * stride}, slice_bytes, gather, "all_reduce");
  }
  channel_.wait_arrivals(gather, expected, "all_reduce");
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    const std::byte* result =
        owner == me ? send_.data() + reduced_offset : receive_.data() + results_offset + owner * stride;
    std::memcpy(values.data() + first(owner), result, count(owner) * sizeof(T));
  }
  channel_.wait_sent("all_reduce");
}

void Collectives::all_reduce_sum(std::span<float> values) {
  sum(values);
}
void Collectives::all_reduce_sum(std::span<double> values) {
  sum(values);
}

std::int64_t Collectives::all_reduce_max(std::int64_t value) {
  all_reduce_max(std::span(&value, 1));
  return value;
}

void Collectives::all_reduce_max(std::span<std::int64_t> values) {
  const auto ranks = static_cast<std::size_t>(channel_.size());
  if (ranks == 1) return;
  const auto me = static_cast<std::size_t>(channel_.rank());
  const Tag tag = channel_.next_tag();
  // Two sets of slots in turn: a peer that is already in the next exchange must not overwrite what this rank
  // is about to read.
  max_parity_ ^= 1;
  const std::size_t slots = max_parity_ * ranks;
  std::memcpy(send_.data(), values.data(), values.size_bytes());
  for (std::size_t step = 1; step < ranks; ++step) {
    channel_.put(static_cast<int>((me + step) % ranks), {send_region_, 0},
                 {receive_region_, (slots + me) * kMaxSlotBytes}, values.size_bytes(), tag, "all_reduce_max");
  }
  channel_.wait_arrivals(tag, std::vector<std::size_t>(ranks, values.size_bytes()), "all_reduce_max");
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank == me) continue;
    const std::byte* theirs = receive_.data() + (slots + rank) * kMaxSlotBytes;
    for (std::int64_t& value : values) {
      std::int64_t other;
      std::memcpy(&other, theirs, sizeof other);
      value = std::max(value, other);
      theirs += sizeof other;
    }
  }
  channel_.wait_sent("all_reduce_max");
}

}  // namespace mrb
