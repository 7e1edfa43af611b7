#include "dispatch/block_exchange.hpp"

#include <cstring>

#include "base/random.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"
#include "transport/chaos.hpp"

namespace mrb::test {

namespace {

PairTable table(int ranks, const std::vector<std::int64_t>& values) {
  PairTable made(ranks);
  for (int source = 0; source < ranks; ++source) {
    for (int target = 0; target < ranks; ++target) {
      made.at(source, target) = values[static_cast<std::size_t>(source * ranks + target)];
    }
  }
  return made;
}

// Fills every byte of a block with what only (exchange, source, target) makes, and counts bytes that came
// otherwise.
std::uint8_t mark(std::uint64_t exchange, int source, int target) {
  return static_cast<std::uint8_t>(Random({exchange, static_cast<std::uint64_t>(source * 100 + target)}).next());
}

int run_marked(BlockExchange& exchange, const BlockPlan& plan, const PairTable& bytes, std::uint64_t step, int me) {
  int wrong = 0;
  exchange.run(
      plan, bytes, "test",
      [&](int target, std::byte* block) {
        std::memset(block, mark(step, me, target), static_cast<std::size_t>(bytes.at(me, target)));
      },
      [&](std::span<const std::byte* const> blocks) {
        for (int source = 0; source < bytes.ranks(); ++source) {
          for (std::int64_t i = 0; i < bytes.at(source, me); ++i) {
            const auto byte = static_cast<std::uint8_t>(blocks[static_cast<std::size_t>(source)][i]);
            wrong += byte != mark(step, source, me);
          }
        }
      });
  return wrong;
}

}  // namespace

// Blocks begin at multiples of 64 bytes. Sizes in bytes, by (source, target):
//    10  70   0
//     0   5  64
//   128   1   1
TEST_CASE("blocks lie one after the other, in the order of ranks", "[dispatch]") {
  const PairTable bytes = table(3, {10, 70, 0, 0, 5, 64, 128, 1, 1});
  std::vector<BlockPlan> plans(3);
  run_ranks(3, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    Channel channel(*transport, bootstrap, 30);
    {
      BlockExchange exchange(channel);
      plans[static_cast<std::size_t>(bootstrap.rank())] = exchange.plan(bytes);
    }
    bootstrap.barrier();
  });
  using Offsets = std::vector<std::size_t>;
  CHECK(plans[0].send_offset_bytes == Offsets{0, 0, 128});  // nothing to itself, 70 bytes to rank 1
  CHECK(plans[2].send_offset_bytes == Offsets{0, 128, 192});
  CHECK(plans[0].receive_offset_bytes == Offsets{0, 64, 64});
  CHECK(plans[1].receive_offset_bytes == Offsets{0, 128, 192});
  CHECK(plans[0].landing_offset_bytes == Offsets{0, 0, 0});
  CHECK(plans[1].landing_offset_bytes == Offsets{64, 128, 0});
  CHECK(plans[2].landing_offset_bytes == Offsets{64, 192, 64});
}

// Rank 0 writes to rank 1, rank 1 to rank 2, and never the other way: no data tells the writer that it may go
// on.
TEST_CASE("a rank that is ahead does not overwrite what a slow one has not read", "[dispatch]") {
  constexpr int kRanks = 3;
  constexpr std::uint64_t kExchanges = 300;
  const PairTable bytes = table(kRanks, {0, 3000, 0, 0, 0, 3000, 0, 0, 0});
  std::vector<int> wrong(kRanks);
  run_ranks(kRanks, [&](Bootstrap& bootstrap) {
    const int me = bootstrap.rank();
    const auto transport = make_transport("loopback", bootstrap, {.chaos = {.seed = 11}});
    Channel channel(*transport, bootstrap, 30);
    {
      BlockExchange exchange(channel);
      const BlockPlan plan = exchange.plan(bytes);
      for (std::uint64_t step = 0; step < kExchanges; ++step) {
        wrong[static_cast<std::size_t>(me)] += run_marked(exchange, plan, bytes, step, me);
      }
    }
    bootstrap.barrier();
  });
  CHECK(wrong == std::vector<int>(kRanks, 0));
}

TEST_CASE("buffers grow on all ranks together, while nothing is on its way into the old ones", "[dispatch]") {
  constexpr int kRanks = 4;
  std::vector<int> wrong(kRanks);
  std::vector<std::size_t> late_puts(kRanks);
  run_ranks(kRanks, [&](Bootstrap& bootstrap) {
    const int me = bootstrap.rank();
    const auto index = static_cast<std::size_t>(me);
    const auto transport = make_transport("loopback", bootstrap, {.chaos = {.seed = 11}});
    Channel channel(*transport, bootstrap, 30);
    {
      BlockExchange exchange(channel);
      for (std::uint64_t step = 0; step < 60; ++step) {
        PairTable bytes(kRanks);
        Random random({step});
        for (int pair = 0; pair < kRanks * kRanks; ++pair) {
          // Mostly empty, and every few steps larger than ever before.
          if (random.below(3) == 0)
            bytes.at(pair / kRanks, pair % kRanks) = static_cast<std::int64_t>(random.below(20 + step * step));
        }
        wrong[index] += run_marked(exchange, exchange.plan(bytes), bytes, step, me);
      }
    }
    bootstrap.barrier();
    late_puts[index] = mrb::late_puts(*transport);
  });
  CHECK(wrong == std::vector<int>(kRanks, 0));
  CHECK(late_puts == std::vector<std::size_t>(kRanks, 0));
}

TEST_CASE("a rank that never comes is named within the time limit", "[dispatch]") {
  std::string error;
  run_ranks(2, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    Channel channel(*transport, bootstrap, 0.05);
    BlockExchange exchange(channel);
    const PairTable bytes = table(2, {8, 8, 8, 8});
    const BlockPlan plan = exchange.plan(bytes);
    if (bootstrap.rank() == 0) {
      try {
        run_marked(exchange, plan, bytes, 0, 0);
      } catch (const Error& timeout) {
        error = timeout.what();
      }
    }
    bootstrap.barrier();
  });
  CHECK_THAT(error, contains("test: waited 0.05 s for rank 1 (0 of 1 puts arrived)"));
  CHECK_THAT(error, contains("fix: look at rank 1 first"));
}

}  // namespace mrb::test
