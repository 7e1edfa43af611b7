#include "transport/collectives.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

namespace mrb {

namespace {

// all_reduce_max needs one of these per rank; they lie before everything else.
constexpr std::size_t kMaxSlotBytes = sizeof(std::int64_t);

}  // namespace

Collectives::Collectives(Channel& channel) : channel_(channel) { reserve(0); }

Collectives::~Collectives() {
  if (!exposed_) return;
  channel_.withdraw(send_region_);
  channel_.withdraw(receive_region_);
}

// Layout of both regions, with S = size and B = the longest slice:
//   send     [1 max slot][S slices of B: contributions, by owner][reduced slice of B]
//   receive  [2 x S max slots, by parity and sender][S slices of B: contributions to mine, by sender]
//            [S slices of B: reduced, by owner]
void Collectives::reserve(std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(channel_.size());
  const std::size_t send_bytes = kMaxSlotBytes + (ranks + 1) * bytes;
  const std::size_t receive_bytes = 2 * ranks * kMaxSlotBytes + 2 * ranks * bytes;
  if (exposed_ && receive_bytes <= receive_.size()) return;
  if (exposed_) {
    all_reduce_max(0);  // nobody grows while a peer may still write into the old memory
    channel_.wait_sent("all_reduce");
    channel_.withdraw(send_region_);
    channel_.withdraw(receive_region_);
  }
  send_ = AlignedBuffer(send_bytes);
  receive_ = AlignedBuffer(receive_bytes);
  send_region_ = channel_.expose(send_.bytes());
  receive_region_ = channel_.expose(receive_.bytes());
  exposed_ = true;
}

template <class T>
void Collectives::sum(std::span<T> values) {
  const auto ranks = static_cast<std::size_t>(channel_.size());
  if (ranks == 1 || values.empty()) return;
  const auto me = static_cast<std::size_t>(channel_.rank());
  // Every rank owns a slice, none is empty: each exchange then involves every pair of ranks, so a rank that is ahead
  // by one exchange has proof that its peers have read what it is about to overwrite.
  const std::size_t slice = (values.size() + ranks - 1) / ranks;
  const std::size_t slice_bytes = slice * sizeof(T);
  reserve(slice_bytes);
  const auto first = [&](std::size_t owner) { return std::min(owner * slice, values.size()); };
  const auto count = [&](std::size_t owner) { return std::min(values.size(), (owner + 1) * slice) - first(owner); };

  std::byte* contributions = send_.data() + kMaxSlotBytes;
  std::byte* reduced = contributions + ranks * slice_bytes;
  const std::size_t received_offset = 2 * ranks * kMaxSlotBytes;
  const std::byte* received = receive_.data() + received_offset;
  const std::byte* results = received + ranks * slice_bytes;
  const std::vector<std::size_t> expected(ranks, slice_bytes);

  channel_.wait_sent("all_reduce");
  const Tag scatter = channel_.next_tag();
  const Tag gather = channel_.next_tag();
  for (std::size_t step = 1; step < ranks; ++step) {
    const std::size_t peer = (me + step) % ranks;
    std::memcpy(contributions + peer * slice_bytes, values.data() + first(peer), count(peer) * sizeof(T));
    channel_.put(static_cast<int>(peer), {send_region_, kMaxSlotBytes + peer * slice_bytes},
                 {receive_region_, received_offset + me * slice_bytes}, slice_bytes, scatter, "all_reduce");
  }
  channel_.wait_arrivals(scatter, expected, "all_reduce");

  T* total = reinterpret_cast<T*>(reduced);
  std::fill(total, total + slice, T{0});
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const T* part = rank == me ? values.data() + first(me) : reinterpret_cast<const T*>(received + rank * slice_bytes);
    for (std::size_t i = 0; i < count(me); ++i) total[i] += part[i];
  }
  for (std::size_t step = 1; step < ranks; ++step) {
    channel_.put(static_cast<int>((me + step) % ranks), {send_region_, kMaxSlotBytes + ranks * slice_bytes},
                 {receive_region_, received_offset + (ranks + me) * slice_bytes}, slice_bytes, gather, "all_reduce");
  }
  channel_.wait_arrivals(gather, expected, "all_reduce");
  for (std::size_t owner = 0; owner < ranks; ++owner) {
    const std::byte* result = owner == me ? reduced : results + owner * slice_bytes;
    std::memcpy(values.data() + first(owner), result, count(owner) * sizeof(T));
  }
}

void Collectives::all_reduce_sum(std::span<float> values) { sum(values); }
void Collectives::all_reduce_sum(std::span<double> values) { sum(values); }

std::int64_t Collectives::all_reduce_max(std::int64_t value) {
  const auto ranks = static_cast<std::size_t>(channel_.size());
  if (ranks == 1) return value;
  const auto me = static_cast<std::size_t>(channel_.rank());
  channel_.wait_sent("all_reduce_max");
  const Tag tag = channel_.next_tag();
  // Two sets of slots in turn: a peer that is already in the next exchange must not overwrite what this rank is
  // about to read.
  max_parity_ ^= 1;
  const std::size_t slots = max_parity_ * ranks;
  std::memcpy(send_.data(), &value, sizeof value);
  for (std::size_t step = 1; step < ranks; ++step) {
    channel_.put(static_cast<int>((me + step) % ranks), {send_region_, 0},
                 {receive_region_, (slots + me) * kMaxSlotBytes}, kMaxSlotBytes, tag, "all_reduce_max");
  }
  channel_.wait_arrivals(tag, std::vector<std::size_t>(ranks, kMaxSlotBytes), "all_reduce_max");
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank == me) continue;
    std::int64_t theirs;
    std::memcpy(&theirs, receive_.data() + (slots + rank) * kMaxSlotBytes, sizeof theirs);
    value = std::max(value, theirs);
  }
  return value;
}

}  // namespace mrb
