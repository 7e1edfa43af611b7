#include "dispatch/block_exchange.hpp"

#include <algorithm>
#include <exception>

#include "base/error.hpp"

namespace mrb {

namespace {

constexpr std::size_t kNoticeBytes = 8;  // its content means nothing; its arrival is counted

std::size_t aligned(std::size_t bytes) {
  return (bytes + AlignedBuffer::kAlignment - 1) / AlignedBuffer::kAlignment * AlignedBuffer::kAlignment;
}

std::size_t at(std::span<const std::size_t> values, int rank) {
  return values[static_cast<std::size_t>(rank)];
}

std::size_t size_at(const PairTable& bytes, int source, int target) {
  return static_cast<std::size_t>(bytes.at(source, target));
}

}  // namespace

BlockExchange::BlockExchange(Channel& channel)
    : channel_(channel),
      me_(channel.rank()),
      ranks_(channel.size()),
      send_capacity_(static_cast<std::size_t>(ranks_)),
      receive_capacity_(static_cast<std::size_t>(ranks_)),
      bytes_put_to_(static_cast<std::size_t>(ranks_)) {
  allocate();
}

BlockExchange::~BlockExchange() {
  if (std::uncaught_exceptions() == 0) {
    try {
      operation_ = "closing";
      wait_until_read(0);
      wait_until_read(1);
      channel_.wait_sent("closing");
    } catch (const Error&) {
      // A rank that does not answer now writes nothing more either, and whoever needs it next will say so.
    }
  }
  channel_.withdraw(send_region_);
  channel_.withdraw(receive_region_);
}

// Room for blocks of these sizes, plus what lies before them.
void BlockExchange::allocate() {
  send_ = AlignedBuffer(aligned(kNoticeBytes) + at(send_capacity_, me_));
  receive_ = AlignedBuffer(receive_base(me_, 0) + 2 * at(receive_capacity_, me_));
  send_region_ = channel_.expose(send_.bytes());
  receive_region_ = channel_.expose(receive_.bytes());
}

std::size_t BlockExchange::receive_base(int rank, std::size_t half) const {
  return aligned(static_cast<std::size_t>(ranks_) * kNoticeBytes) + half * at(receive_capacity_, rank);
}

BlockPlan BlockExchange::plan(const PairTable& bytes_max) {
  const auto ranks = static_cast<std::size_t>(ranks_);
  BlockPlan plan{.send_offset_bytes = std::vector<std::size_t>(ranks),
                 .receive_offset_bytes = std::vector<std::size_t>(ranks),
                 .landing_offset_bytes = std::vector<std::size_t>(ranks)};
  std::vector<std::size_t> send_bytes(ranks), receive_bytes(ranks);  // of every rank
  for (int source = 0; source < ranks_; ++source) {
    for (int target = 0; target < ranks_; ++target) {
      const auto s = static_cast<std::size_t>(source);
      const auto t = static_cast<std::size_t>(target);
      if (source == me_) {
        plan.send_offset_bytes[t] = send_bytes[s];
        plan.landing_offset_bytes[t] = receive_bytes[t];
      }
      if (target == me_) plan.receive_offset_bytes[s] = receive_bytes[t];
      const std::size_t bytes = aligned(size_at(bytes_max, source, target));
      receive_bytes[t] += bytes;
      if (source != target) send_bytes[s] += bytes;
    }
  }
  grow(send_bytes, receive_bytes);
  return plan;
}

// All ranks see the same sizes and capacities, so they all come to the same decision, and expose() lets
// nobody go on before all have their new memory.
void BlockExchange::grow(std::span<const std::size_t> send_bytes, std::span<const std::size_t> receive_bytes) {
  bool grows = false;
  const auto raise = [&](std::size_t& capacity, std::size_t bytes) {
    if (bytes <= capacity) return;
    capacity = aligned(with_headroom(bytes));
    grows = true;
  };
  for (std::size_t rank = 0; rank < send_bytes.size(); ++rank) {
    raise(send_capacity_[rank], send_bytes[rank]);
    raise(receive_capacity_[rank], receive_bytes[rank]);
  }
  if (!grows) return;
  operation_ = "growing";
  wait_until_read(0);  // the peers' notices are the last that may still come into the old memory
  wait_until_read(1);
  channel_.wait_sent(operation_);
  channel_.withdraw(send_region_);
  channel_.withdraw(receive_region_);
  allocate();
}

void BlockExchange::start(const BlockPlan& plan, const PairTable& bytes, std::string_view operation, const Fill& fill) {
  operation_ = operation;
  const std::size_t half = half_;
  half_ ^= 1;
  wait_until_read(half);
  data_ = channel_.next_tag();
  notice_ = channel_.next_tag();

  std::byte* const received = receive_.data() + receive_base(me_, half);
  for (int step = 1; step <= ranks_; ++step) {
    const int target = (me_ + step) % ranks_;  // its own block last, while the others travel
    if (target == me_) {
      fill(me_, received + at(plan.receive_offset_bytes, me_));
      continue;
    }
    const std::size_t block = aligned(kNoticeBytes) + at(plan.send_offset_bytes, target);
    const std::size_t block_bytes = size_at(bytes, me_, target);
    if (block_bytes == 0) continue;
    fill(target, send_.data() + block);
    put(target, {send_region_, block},
        {receive_region_, receive_base(target, half) + at(plan.landing_offset_bytes, target)}, block_bytes, data_);
  }

  expected_.clear();
  received_.clear();
  for (int source = 0; source < ranks_; ++source) {
    expected_.push_back(size_at(bytes, source, me_));
    received_.push_back(received + at(plan.receive_offset_bytes, source));
  }
}

void BlockExchange::finish(const Read& read) {
  channel_.wait_arrivals(data_, expected_, operation_);
  channel_.wait_sent(operation_);  // the send buffer is free again, and nothing waits for this rank to poll
  const auto received = std::move(received_);
  const std::size_t half = half_ ^ 1;
  const Tag notice = notice_;
  read(received);
  tell_all_read(notice);
  unread_[half] = notice;
}

void BlockExchange::put(int peer, Piece from, Piece to, std::size_t bytes, Tag tag) {
  channel_.put(peer, from, to, bytes, tag, operation_);
  bytes_put_to_[static_cast<std::size_t>(peer)] += bytes;
}

void BlockExchange::tell_all_read(Tag notice) {
  for (int step = 1; step < ranks_; ++step) {
    put((me_ + step) % ranks_, {send_region_, 0}, {receive_region_, static_cast<std::size_t>(me_) * kNoticeBytes},
        kNoticeBytes, notice);
  }
}

void BlockExchange::wait_until_read(std::size_t half) {
  if (!unread_[half]) return;
  const Tag notice = *unread_[half];
  unread_[half].reset();
  channel_.wait_arrivals(notice, std::vector<std::size_t>(static_cast<std::size_t>(ranks_), kNoticeBytes), operation_);
}

}  // namespace mrb
