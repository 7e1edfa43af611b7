// The transports by themselves: puts between pairs of ranks, and an exchange of all with all. Both count arrivals as
// every other user of a channel does.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "bench/micro_bench.hpp"

namespace mrb {

namespace {

// Messages tell whose they are and which: every byte of the body is a function of sender and place, and the first and
// last bytes carry the iteration.
class Messages {
 public:
  static void write(std::byte* message, std::size_t bytes, int sender) {
    for (std::size_t i = 0; i < bytes; ++i) message[i] = body(sender, i);
  }
  static void stamp(std::byte* message, std::size_t bytes, std::uint32_t number) {
    const std::size_t length = std::min(sizeof number, bytes);
    std::memcpy(message, &number, length);
    std::memcpy(message + bytes - length, &number, length);
  }
  static bool is_right(const std::byte* message, std::size_t bytes, int sender, std::uint32_t number) {
    const std::size_t length = std::min(sizeof number, bytes);
    if (std::memcmp(message + bytes - length, &number, length) != 0) return false;
    if (bytes >= 2 * length && std::memcmp(message, &number, length) != 0) return false;
    for (std::size_t i = length; i + length < bytes; ++i) {
      if (message[i] != body(sender, i)) return false;
    }
    return true;
  }

 private:
  static std::byte body(int sender, std::size_t i) {
    return static_cast<std::byte>((i * 131 + (i >> 8) * 17 + static_cast<std::size_t>(sender) * 29 + 1) % 251);
  }
};

std::uint64_t sum(const std::vector<std::uint64_t>& values) {
  std::uint64_t total = 0;
  for (const std::uint64_t value : values) total += value;
  return total;
}

// What a channel has sent; there is nothing else to compare it with.
DispatchBytes bytes_of(const Channel& channel) {
  const std::uint64_t wire = sum(channel.traffic().bytes_to);
  return {.logical = wire, .wire = wire};
}

// Two pieces of memory that all ranks expose.
class Memory {
 public:
  Memory(Channel& channel, std::size_t send_bytes, std::size_t receive_bytes)
      : send(send_bytes),
        receive(receive_bytes),
        channel_(channel),
        send_region(channel.expose(send.bytes())),
        receive_region(channel.expose(receive.bytes())) {}
  ~Memory() {
    channel_.withdraw(send_region);
    channel_.withdraw(receive_region);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  AlignedBuffer send, receive;

 private:
  Channel& channel_;

 public:
  RegionId send_region, receive_region;
};

// Rank i of the lower half and rank i of the upper half are a pair: ranks of different nodes wherever there are any.
class TransportBench final : public MicroBench {
 public:
  TransportBench(Channel& channel, const LaunchContext& context, const MicroSpec& spec)
      : channel_(channel),
        clock_(context.clock),
        spec_(spec),
        half_(channel.size() / 2),
        is_first_(channel.rank() < half_),
        has_peer_(channel.rank() < 2 * half_),
        peer_(is_first_ ? channel.rank() + half_ : channel.rank() - half_),
        memory_(channel, spec.sizes.back(), spec.sizes.back()),
        puts_from_(static_cast<std::size_t>(channel.size())) {}

  void prepare(std::size_t size_index) override {
    bytes_ = spec_.sizes[size_index];
    Messages::write(memory_.send.data(), bytes_, channel_.rank());
  }

  void before(std::uint64_t index) override {
    number_ = static_cast<std::uint32_t>(index) + 1;
    Messages::stamp(memory_.send.data(), bytes_, number_);
    std::memset(memory_.receive.data(), 0, bytes_);
  }

  Times run() override {
    if (!has_peer_) return {kNotMeasured, 0};
    there_and_back();  // the ranks come out of the barrier one after the other: this one is not counted
    const std::int64_t began_ns = clock_.now_ns();
    for (int i = 0; i < spec_.repeats; ++i) there_and_back();
    const std::int64_t ended_ns = clock_.now_ns();
    channel_.wait_sent("put");
    return {is_first_ ? (ended_ns - began_ns) / (2 * spec_.repeats) : kNotMeasured, 0};
  }

  std::uint64_t count_wrong() override {
    if (!has_peer_) return 0;
    return Messages::is_right(memory_.receive.data(), bytes_, peer_, number_) ? 0 : 1;
  }

  // A stream one way: windows of puts, each wholly sent before the next, and at the end one word from the other side
  // that it has all of them.
  double run_in_a_row(std::uint64_t index, int count, std::uint64_t& wrong) override {
    before(index);
    if (!has_peer_) return 0;
    there_and_back();
    const std::int64_t began_ns = clock_.now_ns();
    for (int window = 0; window < count; ++window) {
      const Tag tag = channel_.next_tag();
      if (is_first_) {
        for (int i = 0; i < spec_.window; ++i) put(tag);
        channel_.wait_sent("stream");
      } else {
        puts_from_[static_cast<std::size_t>(peer_)] = channel_.pieces(bytes_) * static_cast<std::size_t>(spec_.window);
        channel_.wait_puts(tag, puts_from_, "stream");
      }
    }
    const Tag all_here = channel_.next_tag();
    if (is_first_) {
      wait_one(all_here);
    } else {
      put(all_here);
      channel_.wait_sent("stream");
    }
    const std::int64_t ended_ns = clock_.now_ns();
    if (spec_.check) wrong += count_wrong();
    return is_first_ ? static_cast<double>(ended_ns - began_ns) / count / spec_.window : 0;
  }

  DispatchBytes bytes() const override { return bytes_of(channel_); }

 private:
  void there_and_back() {
    const Tag there = channel_.next_tag(), back = channel_.next_tag();
    if (is_first_) {
      put(there);
      wait_one(back);
    } else {
      wait_one(there);
      put(back);
    }
  }

  void put(Tag tag) { channel_.put(peer_, {memory_.send_region, 0}, {memory_.receive_region, 0}, bytes_, tag, "put"); }
  void wait_one(Tag tag) {
    puts_from_[static_cast<std::size_t>(peer_)] = channel_.pieces(bytes_);
    channel_.wait_puts(tag, puts_from_, "put");
  }

  Channel& channel_;
  const Clock& clock_;
  const MicroSpec& spec_;
  int half_;
  bool is_first_, has_peer_;
  int peer_;
  Memory memory_;
  std::vector<std::size_t> puts_from_;
  std::size_t bytes_ = 0;
  std::uint32_t number_ = 0;
};

// Straight from the send memory into the receive memory of the peers, this rank's own part by a copy. Exchanges take
// turns with two halves of the receive memory: a rank that has the data of exchange i from every peer knows that they
// have begun i, so have read i - 1.
class AlltoallvBench final : public MicroBench {
 public:
  AlltoallvBench(Channel& channel, const LaunchContext& context, const MicroSpec& spec, const Config& config)
      : channel_(channel),
        clock_(context.clock),
        spec_(spec),
        seed_(config.seed),
        me_(channel.rank()),
        ranks_(static_cast<std::size_t>(channel.size())),
        slot_bytes_(longest(spec) + AlignedBuffer::kAlignment - longest(spec) % AlignedBuffer::kAlignment),
        memory_(channel, ranks_ * slot_bytes_, 2 * ranks_ * slot_bytes_),
        bytes_to_(ranks_),
        bytes_from_(ranks_) {}

  void prepare(std::size_t size_index) override {
    size_ = spec_.sizes[size_index];
    for (std::size_t peer = 0; peer < ranks_; ++peer) Messages::write(message_to(peer), longest_of_size(), me_);
  }

  void before(std::uint64_t index) override {
    number_ = static_cast<std::uint32_t>(index) + 1;
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      Messages::write(message_to(peer), bytes_to_[peer], me_);  // where a stamp of the iteration before was
      bytes_to_[peer] = draw(index, static_cast<std::size_t>(me_), peer);
      bytes_from_[peer] = draw(index, peer, static_cast<std::size_t>(me_));
      Messages::stamp(message_to(peer), bytes_to_[peer], number_);
    }
    if (spec_.check) std::memset(memory_.receive.data(), 0, memory_.receive.size());
  }

  Times run() override {
    const std::int64_t began_ns = clock_.now_ns();
    for (int i = 0; i < spec_.repeats; ++i) exchange();
    return {(clock_.now_ns() - began_ns) / spec_.repeats, 0};
  }

  std::uint64_t count_wrong() override {
    std::uint64_t wrong = 0;
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      const bool is_right = Messages::is_right(message_from(peer), bytes_from_[peer], static_cast<int>(peer), number_);
      wrong += is_right ? 0 : 1;
    }
    return wrong;
  }

  double run_in_a_row(std::uint64_t, int, std::uint64_t&) override { return 0; }

  DispatchBytes bytes() const override { return bytes_of(channel_); }

 private:
  static std::size_t longest(const MicroSpec& spec) {
    return static_cast<std::size_t>(static_cast<double>(spec.sizes.back()) * (1 + spec.imbalance)) + 1;
  }
  std::size_t longest_of_size() const {
    return static_cast<std::size_t>(static_cast<double>(size_) * (1 + spec_.imbalance));
  }

  std::size_t draw(std::uint64_t index, std::size_t from, std::size_t to) const {
    if (spec_.imbalance == 0) return size_;
    Random random({seed_, Random::lengths, index, from, to});
    const double factor = 1 + spec_.imbalance * (2 * random.uniform() - 1);
    return std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(size_) * factor));
  }

  std::byte* message_to(std::size_t peer) const { return memory_.send.data() + peer * slot_bytes_; }
  std::size_t place_from(std::size_t peer) const { return (half_ * ranks_ + peer) * slot_bytes_; }
  std::byte* message_from(std::size_t peer) const { return memory_.receive.data() + place_from(peer); }

  void exchange() {
    half_ ^= 1;
    const Tag tag = channel_.next_tag();
    const auto mine = static_cast<std::size_t>(me_);
    for (std::size_t step = 1; step < ranks_; ++step) {
      const std::size_t peer = (mine + step) % ranks_;
      channel_.put(static_cast<int>(peer), {memory_.send_region, peer * slot_bytes_},
                   {memory_.receive_region, place_from(mine)}, bytes_to_[peer], tag, "alltoallv");
    }
    std::memcpy(message_from(mine), message_to(mine), bytes_to_[mine]);
    channel_.wait_arrivals(tag, bytes_from_, "alltoallv");
    channel_.wait_sent("alltoallv");
  }

  Channel& channel_;
  const Clock& clock_;
  const MicroSpec& spec_;
  std::uint64_t seed_;
  int me_;
  std::size_t ranks_;
  std::size_t slot_bytes_;
  Memory memory_;
  std::vector<std::size_t> bytes_to_, bytes_from_;
  std::size_t size_ = 0;
  std::size_t half_ = 0;
  std::uint32_t number_ = 0;
};

}  // namespace

std::unique_ptr<MicroBench> make_transport_bench(Channel& channel, const LaunchContext& context, const MicroSpec& spec,
                                                 const Config&) {
  return std::make_unique<TransportBench>(channel, context, spec);
}

std::unique_ptr<MicroBench> make_alltoallv_bench(Channel& channel, const LaunchContext& context, const MicroSpec& spec,
                                                 const Config& config) {
  return std::make_unique<AlltoallvBench>(channel, context, spec, config);
}

}  // namespace mrb
