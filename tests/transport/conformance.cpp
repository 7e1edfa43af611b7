#include "transport/conformance.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <thread>

#include "base/aligned_buffer.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "transport/channel.hpp"
#include "transport/collectives.hpp"

namespace mrb::test {

namespace {

constexpr double kTimeout_s = 60;
constexpr std::byte kUntouched{0xEE};

void expect(bool holds, const std::string& message) {
  if (!holds) throw std::runtime_error(message);
}

// Byte `i` of the message number `message` from `sender` to `target`.
std::byte pattern(int sender, int target, std::size_t message, std::size_t i) {
  const std::size_t mix =
      i * 131 + (i >> 8) * 17 + message * 29 + static_cast<std::size_t>(sender * 7 + target * 3 + 1);
  return static_cast<std::byte>(mix % 251);
}

void fill(std::byte* at, std::size_t bytes, int sender, int target, std::size_t message) {
  for (std::size_t i = 0; i < bytes; ++i) at[i] = pattern(sender, target, message, i);
}

void expect_message(const std::byte* at, std::size_t bytes, int sender, int target, std::size_t message) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (at[i] == pattern(sender, target, message, i)) continue;
    throw std::runtime_error(fmt::format("byte {} of {} of message {} from rank {} to rank {} is {:#x}", i, bytes,
                                         message, sender, target, static_cast<unsigned>(at[i])));
  }
}

void expect_untouched(const std::byte* begin, const std::byte* end, std::string_view where) {
  const auto changed = std::find_if(begin, end, [](std::byte byte) { return byte != kUntouched; });
  if (changed != end) throw std::runtime_error(fmt::format("byte {} {} was written to", changed - begin, where));
}

// A transport with the immediates that arrived, and a region for sending and one for receiving.
class Rank {
 public:
  Rank(Bootstrap& bootstrap, std::unique_ptr<Transport> transport, std::size_t send_bytes, std::size_t receive_bytes)
      : bootstrap_(bootstrap), transport_(std::move(transport)), send(send_bytes), receive(receive_bytes) {
    send_region = transport_->expose(send.bytes());
    receive_region = transport_->expose(receive.bytes());
  }
  ~Rank() {
    try {
      if (std::uncaught_exceptions() == 0) bootstrap_.barrier();
    } catch (const Error&) {  // another rank's check has failed, and says so
    }
    transport_.reset();
  }

  int me() const { return bootstrap_.rank(); }
  int size() const { return bootstrap_.size(); }
  Transport& transport() { return *transport_; }
  std::size_t longest(std::size_t bytes) const { return std::min(bytes, transport_->capabilities().put_bytes_max); }

  void poll_until(const std::function<bool()>& done, const std::string& what) {
    const std::int64_t deadline_ns = steady_now_ns() + s_to_ns(kTimeout_s);
    while (!done()) {
      transport_->poll(arrived);
      expect(steady_now_ns() < deadline_ns,
             fmt::format("rank {} waited {} s: {}; {} puts have arrived", me(), kTimeout_s, what, arrived.size()));
      sched_yield();
    }
  }

  void put(int peer, std::size_t from, std::size_t to, std::size_t bytes, std::uint32_t exchange) {
    const Put put{peer, send_region, from, receive_region, to, bytes, immediate_of(exchange, me())};
    poll_until([&] { return transport_->try_put(put); }, "the transport takes no put");
  }

  void wait_arrived(std::size_t count) {
    poll_until([&] { return arrived.size() >= count; }, fmt::format("{} puts were expected", count));
    expect(arrived.size() == count, fmt::format("{} puts arrived where {} were expected", arrived.size(), count));
  }

  void wait_sent() {
    poll_until([&] { return transport_->pending_puts() == 0; }, "own puts are pending");
  }

 private:
  Bootstrap& bootstrap_;
  std::unique_ptr<Transport> transport_;

 public:
  AlignedBuffer send;
  AlignedBuffer receive;
  RegionId send_region = 0;
  RegionId receive_region = 0;
  std::vector<std::uint32_t> arrived;
};

// Every pair of ranks, one put of `bytes` each, from and to places that are not aligned.
void exchange_of(Bootstrap& bootstrap, Rank& rank, std::size_t bytes, std::size_t place_bytes) {
  const auto ranks = static_cast<std::size_t>(rank.size());
  constexpr std::uint32_t kExchange = 0xC0DE;
  const std::size_t offset = bytes % 7;
  const auto place = [&](std::size_t of) { return of * place_bytes + offset; };
  std::fill_n(rank.receive.data(), ranks * place_bytes, kUntouched);
  rank.arrived.clear();
  bootstrap.barrier();
  for (std::size_t step = 1; step < ranks; ++step) {
    const auto peer = (static_cast<std::size_t>(rank.me()) + step) % ranks;
    fill(rank.send.data() + place(peer), bytes, rank.me(), static_cast<int>(peer), bytes);
    rank.put(static_cast<int>(peer), place(peer), place(static_cast<std::size_t>(rank.me())), bytes, kExchange);
  }
  rank.wait_arrived(ranks - 1);
  rank.wait_sent();
  std::set<std::uint32_t> senders;
  for (const std::uint32_t immediate : rank.arrived) {
    expect(immediate >> kRankBits == kExchange, fmt::format("immediate {:#x} was never sent", immediate));
    senders.insert(immediate & (kRanksMax - 1));
  }
  expect(senders.size() == ranks - 1, fmt::format("{} of {} senders arrived", senders.size(), ranks - 1));
  for (std::size_t sender = 0; sender < ranks; ++sender) {
    const std::size_t sent = sender != static_cast<std::size_t>(rank.me()) ? bytes : 0;
    const std::byte* begin = rank.receive.data() + sender * place_bytes;
    expect_untouched(begin, begin + offset, "before a put");
    expect_message(begin + offset, sent, static_cast<int>(sender), rank.me(), bytes);
    expect_untouched(begin + offset + sent, begin + place_bytes, "behind a put");
  }
}

void every_pair_and_size(Bootstrap& bootstrap, const MakeTransport& make) {
  const std::size_t sizes[] = {1,    2,    3,    63,    64,    65,    1000,          3968,    3969,    4095,
                               4096, 4097, 8191, 16384, 65535, 65536, (1 << 20) - 1, 1 << 20, 16 << 20};
  const std::size_t largest = (16 << 20) + 64;
  const auto ranks = static_cast<std::size_t>(bootstrap.size());
  Rank rank(bootstrap, make(bootstrap), ranks * largest, ranks * largest);
  for (const std::size_t bytes : sizes) {
    if (bytes == rank.longest(bytes)) exchange_of(bootstrap, rank, bytes, bytes + 32);
  }
}

void many_puts(Bootstrap& bootstrap, const MakeTransport& make) {
  constexpr std::size_t kPuts = 3000;
  constexpr std::size_t kBytes = 24;
  const auto ranks = static_cast<std::size_t>(bootstrap.size());
  Rank rank(bootstrap, make(bootstrap), ranks * kPuts * kBytes, ranks * kPuts * kBytes);
  const auto place = [&](int of, std::size_t message) {
    return (static_cast<std::size_t>(of) * kPuts + message) * kBytes;
  };
  for (std::size_t message = 0; message < kPuts; ++message) {
    for (int peer = 0; peer < rank.size(); ++peer) {
      if (peer == rank.me()) continue;
      fill(rank.send.data() + place(peer, message), kBytes, rank.me(), peer, message);
      rank.put(peer, place(peer, message), place(rank.me(), message), kBytes, static_cast<std::uint32_t>(message));
    }
  }
  rank.wait_arrived((ranks - 1) * kPuts);
  rank.wait_sent();
  const std::set<std::uint32_t> distinct(rank.arrived.begin(), rank.arrived.end());
  expect(distinct.size() == rank.arrived.size(), "an immediate arrived twice");
  for (const std::uint32_t immediate : distinct) {
    const int sender = static_cast<int>(immediate & 0xFFF);
    const std::size_t message = immediate >> 12;
    expect(sender != rank.me() && sender < rank.size() && message < kPuts, "an immediate was never sent");
    expect_message(rank.receive.data() + place(sender, message), kBytes, sender, rank.me(), message);
  }
}

void immediates_use_all_bits(Bootstrap& bootstrap, const MakeTransport& make) {
  Rank rank(bootstrap, make(bootstrap), 64, 64);
  const std::vector<std::uint32_t> sent = {0, 1, 0x80000, 0xFFFFE, 0x12345};
  const int next = (rank.me() + 1) % rank.size();
  const int previous = (rank.me() + rank.size() - 1) % rank.size();
  std::multiset<std::uint32_t> expected;
  for (const std::uint32_t exchange : sent) expected.insert(immediate_of(exchange, previous));
  for (std::size_t i = 0; i < sent.size(); ++i) rank.put(next, i, i, 1, sent[i]);
  rank.wait_arrived(sent.size());
  rank.wait_sent();
  expect(std::multiset<std::uint32_t>(rank.arrived.begin(), rank.arrived.end()) == expected,
         "the immediates that arrived are not those that were sent");
}

// Rank 0 looks away while all others write to it, short and long, more than fits in flight.
void late_target(Bootstrap& bootstrap, const MakeTransport& make) {
  constexpr std::size_t kPuts = 600;
  constexpr std::size_t kPlace = 6000;
  const auto ranks = static_cast<std::size_t>(bootstrap.size());
  Rank rank(bootstrap, make(bootstrap), kPuts * kPlace, ranks * kPuts * kPlace);
  const std::size_t longest = rank.longest(kPlace);
  const auto bytes_of = [&](std::size_t message) {
    return message % 3 == 0 ? longest : std::min(10 + message, longest);
  };
  if (rank.me() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    rank.wait_arrived((ranks - 1) * kPuts);
  } else {
    for (std::size_t message = 0; message < kPuts; ++message) {
      const std::size_t bytes = bytes_of(message);
      fill(rank.send.data() + message * kPlace, bytes, rank.me(), 0, message);
      rank.put(0, message * kPlace, (static_cast<std::size_t>(rank.me()) * kPuts + message) * kPlace, bytes, 7);
    }
    rank.wait_sent();
  }
  bootstrap.barrier();
  if (rank.me() != 0) return;
  for (std::size_t sender = 1; sender < ranks; ++sender) {
    for (std::size_t message = 0; message < kPuts; ++message) {
      const std::size_t bytes = bytes_of(message);
      expect_message(rank.receive.data() + (sender * kPuts + message) * kPlace, bytes, static_cast<int>(sender), 0,
                     message);
    }
  }
}

bool refuses(Transport& transport, const Put& put) {
  try {
    transport.try_put(put);
  } catch (const Error& error) {
    return error.kind() == ErrorKind::internal;
  }
  return false;
}

// Regions of different lengths, one of them empty: the last byte can be written, the one after it cannot.
void lengths_differ(Bootstrap& bootstrap, const MakeTransport& make) {
  const auto length_of = [](int rank) { return static_cast<std::size_t>(rank) * 1000; };
  Rank rank(bootstrap, make(bootstrap), 64, length_of(bootstrap.rank()));
  rank.send.data()[3] = std::byte{42};
  const int next = (rank.me() + 1) % rank.size();
  const Put last{next, rank.send_region, 3, rank.receive_region, length_of(next) - 1, 1, immediate_of(5, rank.me())};
  if (next != 0) rank.put(next, 3, length_of(next) - 1, 1, 5);
  Put beyond = last;
  beyond.target_offset_bytes = length_of(next);
  expect(refuses(rank.transport(), beyond), "a put behind the target region was taken");
  Put wraps = last;
  wraps.target_offset_bytes = ~std::size_t{0};
  expect(refuses(rank.transport(), wraps), "a put whose end overflows was taken");
  Put long_source = last;
  long_source.source_offset_bytes = 60;
  long_source.target_offset_bytes = 0;
  long_source.bytes = 5;
  expect(refuses(rank.transport(), long_source), "a put behind the source region was taken");
  if (rank.me() != 0) {
    rank.wait_arrived(1);
    expect(rank.receive.data()[length_of(rank.me()) - 1] == std::byte{42}, "the last byte did not arrive");
  }
  rank.wait_sent();
}

void regions_come_and_go(Bootstrap& bootstrap, const MakeTransport& make) {
  constexpr std::size_t kBytes = 10000;
  Rank rank(bootstrap, make(bootstrap), kBytes, kBytes);
  const std::size_t bytes = rank.longest(kBytes);
  const int next = (rank.me() + 1) % rank.size();
  const int previous = (rank.me() + rank.size() - 1) % rank.size();
  for (std::size_t round = 0; round < 10; ++round) {
    fill(rank.send.data(), bytes, rank.me(), next, round);
    rank.arrived.clear();
    rank.put(next, 0, 0, bytes, 1);
    rank.wait_arrived(1);
    rank.wait_sent();
    expect_message(rank.receive.data(), bytes, previous, rank.me(), round);
    bootstrap.barrier();
    rank.transport().withdraw(rank.receive_region);
    expect(
        refuses(rank.transport(), {next, rank.receive_region, 0, rank.send_region, 0, 1, immediate_of(0, rank.me())}),
        "a put from a region that was withdrawn was taken");
    rank.receive = AlignedBuffer(kBytes);
    rank.receive_region = rank.transport().expose(rank.receive.bytes());
  }
}

// A channel with a collective on each of its rounds; a rank that is ahead must not disturb one that is behind.
void a_thousand_rounds(Bootstrap& bootstrap, const MakeTransport& make) {
  const auto transport = make(bootstrap);
  {
    Channel channel(*transport, bootstrap, kTimeout_s);
    Collectives collectives(channel);
    for (std::int64_t round = 0; round < 1000; ++round) {
      const std::int64_t largest = collectives.all_reduce_max(round * 100 + channel.rank());
      expect(largest == round * 100 + channel.size() - 1, fmt::format("the maximum of round {} is {}", round, largest));
    }
    bootstrap.barrier();
  }
  bootstrap.barrier();
}

template <class T>
void expect_sum(Collectives& collectives, int me, int ranks, std::size_t length) {
  std::vector<T> values(length);
  const auto value = [&](int rank, std::size_t i) {
    return static_cast<T>(Random({static_cast<std::uint64_t>(rank), i, length}).uniform() - 0.5);
  };
  for (std::size_t i = 0; i < length; ++i) values[i] = value(me, i);
  collectives.all_reduce_sum(std::span<T>(values));
  for (std::size_t i = 0; i < length; ++i) {
    T expected = value(0, i);
    for (int rank = 1; rank < ranks; ++rank) expected += value(rank, i);
    expect(values[i] == expected, fmt::format("sum {} of {} is {} and not {}", i, length, values[i], expected));
  }
}

// Lengths go up and down, and no barrier keeps the ranks together.
void sums_are_sums(Bootstrap& bootstrap, const MakeTransport& make) {
  const auto transport = make(bootstrap);
  {
    Channel channel(*transport, bootstrap, kTimeout_s);
    Collectives collectives(channel);
    for (const std::size_t length : {1, 3, 1000, 100003, 5, 2000, 1, 100003, 999}) {
      expect_sum<float>(collectives, channel.rank(), channel.size(), length);
      expect_sum<double>(collectives, channel.rank(), channel.size(), length);
    }
    bootstrap.barrier();
  }
  bootstrap.barrier();
}

void two_at_once(Bootstrap& bootstrap, const MakeTransport& make) {
  constexpr std::size_t kPlace = 5000;
  const auto ranks = static_cast<std::size_t>(bootstrap.size());
  Rank first(bootstrap, make(bootstrap), ranks * kPlace, ranks * kPlace);
  Rank second(bootstrap, make(bootstrap), ranks * kPlace, ranks * kPlace);
  for (const std::size_t wanted : {1, 100, 4096}) {
    const std::size_t bytes = first.longest(wanted + 1) - 1;
    exchange_of(bootstrap, first, bytes, kPlace);
    exchange_of(bootstrap, second, bytes + 1, kPlace);
  }
}

std::size_t entries_in(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

// Ranks may be threads of one process, and a folder that another one reads is an open file too: one after the other.
std::size_t entries_in_turn(Bootstrap& bootstrap, const char* folder) {
  std::size_t entries = 0;
  for (int rank = 0; rank < bootstrap.size(); ++rank) {
    bootstrap.barrier();
    if (rank == bootstrap.rank()) entries = entries_in(folder);
  }
  bootstrap.barrier();
  return entries;
}

void leaves_nothing_behind(Bootstrap& bootstrap, const MakeTransport& make) {
  std::size_t open_files = 0;
  bootstrap.barrier();
  const std::size_t shared_files = entries_in("/dev/shm");
  bootstrap.barrier();
  for (int time = 0; time < 20; ++time) {
    {
      Rank rank(bootstrap, make(bootstrap), 20000, 20000);
      const int next = (rank.me() + 1) % rank.size();
      rank.put(next, 0, 0, rank.longest(20000), 1);
      rank.wait_arrived(1);
      rank.wait_sent();
    }
    // What a library opens once, it may keep.
    if (time == 2) open_files = entries_in_turn(bootstrap, "/proc/self/fd");
  }
  const std::size_t open_now = entries_in_turn(bootstrap, "/proc/self/fd");
  expect(open_now <= open_files,
         fmt::format("{} files were open after 3 transports and {} after 20", open_files, open_now));
  const std::size_t shared_now = entries_in("/dev/shm");
  expect(shared_now <= shared_files,
         fmt::format("/dev/shm had {} files before and {} after", shared_files, shared_now));
  bootstrap.barrier();
}

}  // namespace

const std::vector<std::pair<std::string, ConformanceCheck>>& conformance_checks() {
  static const std::vector<std::pair<std::string, ConformanceCheck>> checks = {
      {"puts of every size between every pair arrive whole, and touch nothing else", every_pair_and_size},
      {"many puts arrive once each, with their own bytes", many_puts},
      {"immediates keep all their bits", immediates_use_all_bits},
      {"a target that looks late still gets all", late_target},
      {"a put that leaves its region is refused, however long the regions", lengths_differ},
      {"regions can be withdrawn and exposed again", regions_come_and_go},
      {"a thousand rounds of maxima are right", a_thousand_rounds},
      {"sums over ranks are the sums, bit for bit, in ascending order", sums_are_sums},
      {"two transports live side by side", two_at_once},
      {"transports made and ended twenty times leave no file behind", leaves_nothing_behind}};
  return checks;
}

}  // namespace mrb::test
