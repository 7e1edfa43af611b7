#include "transport/channel.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/clock.hpp"
#include "base/units.hpp"

namespace mrb {

namespace {

// Below this a second rail gains nothing: the time goes into starting writes and not into moving bytes.
constexpr std::size_t kStripedBytesMin = std::size_t{128} << 10;
// Stripes begin where a cache line, and a packet's payload, likes to begin.
constexpr std::size_t kStripeAlignment = 256;

// More ranks than cores is usual on a laptop, and there a rank that spins keeps its peer from answering.
constexpr int kPollsBeforeYield = 64;

// Polls between two looks at the clock.
class Waiter {
 public:
  explicit Waiter(std::int64_t timeout_ns) : deadline_ns_(steady_now_ns() + timeout_ns) {}

  // False once the deadline has passed.
  bool again() {
    if (++polls_ % kPollsBeforeYield != 0) return true;
    sched_yield();
    return steady_now_ns() < deadline_ns_;
  }

 private:
  std::int64_t deadline_ns_;
  int polls_ = 0;
};

}  // namespace

Channel::Channel(Transport& transport, Bootstrap& bootstrap, double timeout_s)
    : transport_(transport), rank_(bootstrap.rank()), size_(bootstrap.size()), timeout_ns_(s_to_ns(timeout_s)) {
  if (static_cast<std::uint32_t>(size_) > kRanksMax) {
    throw Error(ErrorKind::config, fmt::format("{} ranks are more than a channel can tell apart", size_),
                fmt::format("use at most {} ranks", kRanksMax));
  }
  // Both ends cut a long put into the same pieces, so all ranks use the shortest of their limits.
  const std::int64_t limit = static_cast<std::int64_t>(transport.capabilities().put_bytes_max);
  put_bytes_max_ = static_cast<std::size_t>(-bootstrap.max(-limit));
  rails_ = transport.capabilities().rails;
  puts_to_.assign(static_cast<std::size_t>(size_), 0);
  puts_came_.assign(static_cast<std::size_t>(size_), 0);
  reset_traffic();
}

Tag Channel::next_tag() {
  next_tag_ = (next_tag_ + 1) % kExchanges;  // it comes round again long after its exchange has ended
  return next_tag_;
}

std::size_t Channel::piece_bytes(std::size_t bytes) const {
  if (rails_ == 1 || bytes < kStripedBytesMin) return put_bytes_max_;
  const std::size_t share = (bytes + rails_ - 1) / rails_;
  return std::min(put_bytes_max_, (share + kStripeAlignment - 1) / kStripeAlignment * kStripeAlignment);
}

std::size_t Channel::pieces(std::size_t bytes) const {
  const std::size_t length = piece_bytes(bytes);
  return (bytes + length - 1) / length;
}

void Channel::poll_together(Channel& other) {
  others_.push_back(&other);
  other.others_.push_back(this);
}

void Channel::poll() {
  poll_own();
  for (Channel* other : others_) other->poll_own();
}

void Channel::poll_own() {
  arrived_.clear();
  transport_.poll(arrived_);
  for (const std::uint32_t immediate : arrived_) {
    ++arrivals_[immediate];
    ++puts_came_[immediate & (kRanksMax - 1)];
  }
}

void Channel::put(int peer, Piece from, Piece to, std::size_t bytes, Tag tag, std::string_view operation) {
  const std::size_t length_max = piece_bytes(bytes);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t length = std::min(length_max, bytes - done);
    const Put put{peer,
                  from.region,
                  from.offset_bytes + done,
                  to.region,
                  to.offset_bytes + done,
                  length,
                  immediate_of(tag, rank_)};
    Waiter waiter(timeout_ns_);
    while (!transport_.try_put(put)) {
      ++traffic_.retries;
      poll();
      if (!waiter.again()) {
        throw Error(ErrorKind::timeout,
                    fmt::format("{}: waited {} s to send {} bytes to rank {}; {} earlier puts are still on their way{}",
                                operation, ns_to_s(timeout_ns_), length, peer, transport_.pending_puts(), state(tag)),
                    fmt::format("look at rank {} first; if it is alive, raise transport.timeout_s", peer));
      }
    }
    ++traffic_.puts;
    ++puts_to_[static_cast<std::size_t>(peer)];
    traffic_.bytes_to[static_cast<std::size_t>(peer)] += length;
    done += length;
  }
}

void Channel::wait_arrivals(Tag tag, std::span<const std::size_t> bytes_from, std::string_view operation) {
  puts_from_.clear();
  for (const std::size_t bytes : bytes_from) puts_from_.push_back(pieces(bytes));
  wait_puts(tag, puts_from_, operation);
}

void Channel::wait_puts(Tag tag, std::span<const std::size_t> puts_from, std::string_view operation) {
  const auto expected = [&](int peer) {
    return peer == rank_ ? std::size_t{0} : puts_from[static_cast<std::size_t>(peer)];
  };
  const auto arrived = [&](int peer) {
    const auto found = arrivals_.find(immediate_of(tag, peer));
    return found == arrivals_.end() ? std::size_t{0} : found->second;
  };
  missing_.clear();
  int awaited = 0;
  for (int peer = 0; peer < size_; ++peer) {
    awaited += expected(peer) > 0 ? 1 : 0;
    if (arrived(peer) < expected(peer)) missing_.push_back(peer);
  }
  const auto half = static_cast<std::size_t>(awaited - awaited / 2);
  std::int64_t half_came_ns = missing_.empty() ? 0 : steady_now_ns();
  Waiter waiter(timeout_ns_);
  while (!missing_.empty()) {
    poll();
    const bool had_half = missing_.size() <= half;
    const int last = missing_.back();
    if (!arrived_.empty()) std::erase_if(missing_, [&](int peer) { return arrived(peer) >= expected(peer); });
    if (!had_half && missing_.size() <= half) half_came_ns = steady_now_ns();
    if (missing_.empty()) traffic_.late_ns[static_cast<std::size_t>(last)] += steady_now_ns() - half_came_ns;
    if (waiter.again() || missing_.empty()) continue;
    std::string who;
    for (const int peer : missing_) {
      who += fmt::format("{}rank {} ({} of {} puts arrived)", who.empty() ? "" : ", ", peer, arrived(peer),
                         expected(peer));
    }
    throw Error(ErrorKind::timeout,
                fmt::format("{}: waited {} s for {}{}", operation, ns_to_s(timeout_ns_), who, state(tag)),
                fmt::format("look at rank {} first; if it is alive, raise transport.timeout_s", missing_.front()));
  }
  for (int p = 0; p < size_; ++p) {
    if (expected(p) > 0) arrivals_.erase(immediate_of(tag, p));
  }
}

bool Channel::try_take_puts(Tag tag, std::span<const std::size_t> puts_from) {
  poll();
  for (int peer = 0; peer < size_; ++peer) {
    const std::size_t expected = peer == rank_ ? 0 : puts_from[static_cast<std::size_t>(peer)];
    const auto found = arrivals_.find(immediate_of(tag, peer));
    if ((found == arrivals_.end() ? 0 : found->second) < expected) return false;
  }
  for (int peer = 0; peer < size_; ++peer) {
    const auto found = arrivals_.find(immediate_of(tag, peer));
    if (peer == rank_ || found == arrivals_.end()) continue;
    found->second -= puts_from[static_cast<std::size_t>(peer)];
    if (found->second == 0) arrivals_.erase(found);
  }
  return true;
}

void Channel::wait_sent(std::string_view operation) {
  Waiter waiter(timeout_ns_);
  while (transport_.pending_puts() > 0) {
    poll();
    if (!waiter.again()) {
      throw Error(ErrorKind::timeout,
                  fmt::format("{}: waited {} s for {} own puts to be taken by their targets{}", operation,
                              ns_to_s(timeout_ns_), transport_.pending_puts(), state(next_tag_)),
                  "look for a rank that has stopped; if all are alive, raise transport.timeout_s");
    }
  }
}

void Channel::drain(Bootstrap& bootstrap) {
  wait_sent("the end");
  bootstrap.barrier_polling([&] { poll(); });
  const auto sent = bootstrap.all_gather(std::as_bytes(std::span(puts_to_)));
  Waiter waiter(timeout_ns_);
  for (int peer = 0; peer < size_; ++peer) {
    std::uint64_t expected = 0;
    const std::byte* to_us =
        sent[static_cast<std::size_t>(peer)].data() + static_cast<std::size_t>(rank_) * sizeof expected;
    std::memcpy(&expected, to_us, sizeof expected);
    while (puts_came_[static_cast<std::size_t>(peer)] < expected) {
      poll();
      if (waiter.again()) continue;
      throw Error(
          ErrorKind::timeout,
          fmt::format("the end: waited {} s for the last puts of rank {} ({} of {} arrived){}", ns_to_s(timeout_ns_),
                      peer, puts_came_[static_cast<std::size_t>(peer)], expected, state(next_tag_)),
          fmt::format("look at rank {} first; if it is alive, raise transport.timeout_s", peer));
    }
  }
}

std::string Channel::state(Tag tag) const {
  std::size_t others = 0;
  for (const auto& [immediate, count] : arrivals_) others += immediate >> kRankBits != tag ? count : 0;
  return fmt::format("\n  here: exchange {}; {} puts sent, {} refused at first; {} arrivals of other exchanges; {}",
                     tag, traffic_.puts, traffic_.retries, others, transport_.state());
}

void Channel::reset_traffic() {
  const auto peers = static_cast<std::size_t>(size_);
  traffic_ = {.bytes_to = std::vector<std::uint64_t>(peers), .late_ns = std::vector<std::int64_t>(peers)};
}

}  // namespace mrb
