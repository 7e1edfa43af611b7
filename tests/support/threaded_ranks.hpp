// Several ranks as threads of one process, over the loopback transport: what needs more than one rank can be tested
// without MPI, under the sanitizers too.
#pragma once

#include <barrier>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cluster/bootstrap.hpp"

namespace mrb::test {

// What the threads share.
struct ThreadedWorld {
  explicit ThreadedWorld(int size) : meeting(size), gathered(static_cast<std::size_t>(size)) {}

  std::barrier<> meeting;
  std::vector<std::vector<std::byte>> gathered;
  std::mutex mutex;
  std::map<std::pair<int, int>, std::shared_ptr<ThreadedWorld>> parts;  // by number of the split and color
};

class ThreadedBootstrap final : public Bootstrap {
 public:
  ThreadedBootstrap(ThreadedWorld& world, int rank) : world_(world), rank_(rank) {}
  ThreadedBootstrap(std::shared_ptr<ThreadedWorld> part, int rank) : ThreadedBootstrap(*part, rank) {
    part_ = std::move(part);
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_.gathered.size()); }

  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    world_.gathered[static_cast<std::size_t>(rank_)].assign(mine.begin(), mine.end());
    world_.meeting.arrive_and_wait();
    auto all = world_.gathered;
    world_.meeting.arrive_and_wait();
    return all;
  }

  std::int64_t max(std::int64_t mine) override {
    for (const auto& bytes : all_gather(std::as_bytes(std::span(&mine, 1)))) {
      mine = std::max(mine, *reinterpret_cast<const std::int64_t*>(bytes.data()));
    }
    return mine;
  }

  void barrier() override { world_.meeting.arrive_and_wait(); }

  std::unique_ptr<Bootstrap> split(int color) override {
    const auto colors = all_gather(std::as_bytes(std::span(&color, 1)));
    int size = 0, rank = 0;
    for (int other = 0; other < this->size(); ++other) {
      if (*reinterpret_cast<const int*>(colors[static_cast<std::size_t>(other)].data()) != color) continue;
      rank += other < rank_ ? 1 : 0;
      ++size;
    }
    const std::lock_guard lock(world_.mutex);
    auto& part = world_.parts[{splits_++, color}];
    if (!part) part = std::make_shared<ThreadedWorld>(size);
    return std::make_unique<ThreadedBootstrap>(part, rank);
  }

  std::vector<std::string> last_words(const std::string& mine) override { return {mine}; }
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  ThreadedWorld& world_;
  int rank_;
  int splits_ = 0;
  std::shared_ptr<ThreadedWorld> part_;  // when it is one: its members keep it
};

// Runs `rank_main` on `size` threads. Assertions of Catch2 are not safe in threads: collect results there, check
// after. An exception of any rank (all must then fail, or the others wait for ever) is thrown again here.
inline void run_ranks(int size, const std::function<void(Bootstrap&)>& rank_main) {
  ThreadedWorld world(size);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadedBootstrap bootstrap(world, rank);
      try {
        rank_main(bootstrap);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
        world.meeting.arrive_and_drop();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace mrb::test
