// Small protocols with one fault each, on the channel and on the memory that dispatchers use. Chaos must find each; the
// same protocol without the fault must pass under the same seeds.
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/random.hpp"
#include "dispatch/one_sided.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

namespace mrb::test {

namespace {

constexpr std::uint64_t kSeeds = 20;
constexpr std::size_t kBytes = 3000;  // several puts

enum class Planted { nothing, fault };

std::byte mark(int step) {
  return static_cast<std::byte>(step % 251 + 1);
}

bool is_all(const std::byte* bytes, std::byte value) {
  return std::all_of(bytes, bytes + kBytes, [&](std::byte byte) { return byte == value; });
}

// Rank 0 writes to rank 1 over memory that chaos moves about. What `protocol` returns are the steps whose bytes were
// wrong, counted over all ranks and seeds.
int wrong_steps(double timeout_s, const std::function<int(Bootstrap&, Channel&)>& protocol) {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    std::vector<int> by_rank(2);
    run_ranks(2, [&](Bootstrap& bootstrap) {
      const auto transport = make_transport("loopback", bootstrap, {.chaos = {.seed = seed}});
      Channel channel(*transport, bootstrap, timeout_s);
      by_rank[static_cast<std::size_t>(bootstrap.rank())] = protocol(bootstrap, channel);
      bootstrap.barrier();
    });
    wrong += by_rank[0] + by_rank[1];
  }
  return wrong;
}

// Data, then a flag. Right: the data is counted, too. The fault: the flag alone says that it is there.
int flag_after_data(Bootstrap& bootstrap, Channel& channel, Planted planted) {
  AlignedBuffer memory(2 * kBytes + 64);
  const RegionId region = channel.expose(memory.bytes());
  const std::size_t landing = kBytes, flag = 2 * kBytes;
  int wrong = 0;
  for (int step = 0; step < 20; ++step) {
    const Tag data_tag = channel.next_tag(), flag_tag = channel.next_tag();
    if (bootstrap.rank() == 0) {
      std::fill_n(memory.data(), kBytes, mark(step));
      channel.put(1, {region, 0}, {region, landing}, kBytes, data_tag, "data");
      channel.put(1, {region, 0}, {region, flag}, 1, flag_tag, "flag");
      channel.wait_sent("data");
    } else {
      channel.wait_arrivals(flag_tag, std::vector<std::size_t>{1, 0}, "flag");
      const auto wait_data = [&] { channel.wait_arrivals(data_tag, std::vector<std::size_t>{kBytes, 0}, "data"); };
      if (planted == Planted::nothing) wait_data();
      wrong += !is_all(memory.data() + landing, mark(step));
      if (planted == Planted::fault) wait_data();  // so that steps do not mix, and the flag alone is at fault
    }
    bootstrap.barrier();
  }
  channel.withdraw(region);
  return wrong;
}

// The fault: the source is filled for the next step before wait_sent().
int source_refilled(Bootstrap& bootstrap, Channel& channel, Planted planted) {
  AlignedBuffer memory(2 * kBytes);
  const RegionId region = channel.expose(memory.bytes());
  int wrong = 0;
  for (int step = 0; step < 20; ++step) {
    const Tag tag = channel.next_tag();
    if (bootstrap.rank() == 0) {
      std::fill_n(memory.data(), kBytes, mark(step));
      channel.put(1, {region, 0}, {region, kBytes}, kBytes, tag, "data");
      if (planted == Planted::fault) std::fill_n(memory.data(), kBytes, mark(step + 1));
      channel.wait_sent("data");
    } else {
      channel.wait_arrivals(tag, std::vector<std::size_t>{kBytes, 0}, "data");
      wrong += !is_all(memory.data() + kBytes, mark(step));
    }
    bootstrap.barrier();
  }
  channel.withdraw(region);
  return wrong;
}

// Two halves in turn, and no barrier: rank 1 says when it has read a step. Right: step i begins when step i - 2 has been
// read, which used the same half. The fault: one step early.
int half_reused(Bootstrap& bootstrap, Channel& channel, Planted planted) {
  constexpr int kSteps = 60;
  AlignedBuffer send(2 * kBytes), receive(2 * kBytes + 64);
  const RegionId source = channel.expose(send.bytes()), target = channel.expose(receive.bytes());
  std::vector<Tag> data, read;
  for (int step = 0; step < kSteps; ++step) {
    data.push_back(channel.next_tag());
    read.push_back(channel.next_tag());
  }
  int wrong = 0;
  const auto wait_read = [&](int step) {
    if (step >= 0 && step < kSteps) {
      channel.wait_arrivals(read[static_cast<std::size_t>(step)], std::vector<std::size_t>{0, 1}, "notice");
    }
  };
  const int ahead = planted == Planted::fault ? 3 : 2;
  Random dawdling({1});
  for (int step = 0; step < kSteps; ++step) {
    const std::size_t half = static_cast<std::size_t>(step % 2) * kBytes;
    const auto index = static_cast<std::size_t>(step);
    if (bootstrap.rank() == 0) {
      wait_read(step - ahead);
      channel.wait_sent("data");
      std::fill_n(send.data() + half, kBytes, mark(step));
      channel.put(1, {source, half}, {target, half}, kBytes, data[index], "data");
    } else {
      channel.wait_arrivals(data[index], std::vector<std::size_t>{kBytes, 0}, "data");
      if (dawdling.below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(dawdling.below(200)));
      wrong += !is_all(receive.data() + half, mark(step));
      channel.put(0, {source, 0}, {target, 2 * kBytes}, 1, read[index], "notice");
    }
  }
  if (bootstrap.rank() == 0) {
    for (int step = kSteps - ahead; step < kSteps; ++step) wait_read(step);
  }
  channel.wait_sent("closing");
  bootstrap.barrier();
  channel.withdraw(source);
  channel.withdraw(target);
  return wrong;
}

template <class Protocol>
void check_is_found(const Protocol& protocol) {
  const auto run = [&](Planted planted) {
    return wrong_steps(30, [&](Bootstrap& b, Channel& channel) { return protocol(b, channel, planted); });
  };
  CHECK(run(Planted::nothing) == 0);
  CHECK(run(Planted::fault) > 0);
}

}  // namespace

TEST_CASE("a flag that is sent after data and not counted with it is found", "[dispatch]") {
  check_is_found(flag_after_data);
}

TEST_CASE("a send buffer that is filled again before it was sent is found", "[dispatch]") {
  check_is_found(source_refilled);
}

TEST_CASE("a receive buffer that is written one step early is found", "[dispatch]") {
  check_is_found(half_reused);
}

// Rank 0 begins one operation more than rank 1, so that the same operation has other tags on each.
TEST_CASE("an epoch that is off by one ends in a timeout that says what is missing", "[dispatch]") {
  const Planted planted = GENERATE(Planted::nothing, Planted::fault);
  std::vector<std::string> texts(2);
  std::vector<int> is_right(2);
  run_ranks(2, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {.chaos = {.seed = 5}});
    Channel channel(*transport, bootstrap, planted == Planted::fault ? 0.3 : 30);
    OneSided memory(channel, {.header_bytes = 8, .receive_bytes = kBytes, .send_bytes = kBytes});
    const int me = bootstrap.rank(), peer = 1 - me;
    if (planted == Planted::fault && me == 0) memory.begin("lost", 8);
    try {
      memory.begin("dispatch", 8);
      std::fill_n(memory.send_data(), kBytes, mark(me));
      memory.put_data(peer, 0, 0, kBytes);
      memory.put_header(peer);
      memory.wait_headers();
      std::vector<std::size_t> puts(2);
      puts[static_cast<std::size_t>(peer)] = memory.puts_of(kBytes);
      memory.wait_data(puts);
      memory.wait_sent();
      is_right[static_cast<std::size_t>(me)] = is_all(memory.received_data(), mark(peer));
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(me)] = error.what();
    }
    bootstrap.barrier();
  });
  CHECK(is_right == std::vector<int>(2, planted == Planted::nothing));
  for (const int me : {0, 1}) {
    const std::string& text = texts[static_cast<std::size_t>(me)];
    if (planted == Planted::nothing) {
      CHECK(text.empty());
    } else {
      CHECK_THAT(text,
                 contains("dispatch: waited 0.3 s for rank " + std::to_string(1 - me) + " (0 of 1 puts arrived)"));
    }
  }
}

}  // namespace mrb::test
