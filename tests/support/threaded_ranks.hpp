// Several ranks as threads of one process, over the loopback transport: what needs more than one rank can be tested
// without MPI, under the sanitizers too.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "cluster/bootstrap.hpp"

namespace mrb::test {

// What all threads of a run share: once a rank has failed, nobody waits any more.
struct ThreadedRun {
  std::mutex mutex;
  std::condition_variable changed;
  std::exception_ptr first_failure;

  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex);
    if (!first_failure) first_failure = std::move(failure);
    changed.notify_all();
  }
};

// What the threads of a bootstrap share.
struct ThreadedWorld {
  ThreadedWorld(ThreadedRun& of, int size) : run(of), gathered(static_cast<std::size_t>(size)) {}

  // Returns when all have come, calling `poll` (which may be empty) while it waits. Throws Error when one has failed or
  // does not come.
  void meet(const std::function<void()>& poll = {}) {
    constexpr std::chrono::seconds kTimeout(120);
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    std::unique_lock lock(run.mutex);
    const std::uint64_t mine = meetings;
    if (++waiting == gathered.size()) {
      waiting = 0;
      ++meetings;
      run.changed.notify_all();
      return;
    }
    const auto is_over = [&] { return meetings != mine || run.first_failure; };
    while (poll && !is_over() && std::chrono::steady_clock::now() < deadline) {
      lock.unlock();
      poll();
      std::this_thread::yield();
      lock.lock();
    }
    run.changed.wait_until(lock, deadline, is_over);
    if (meetings != mine) return;
    throw run.first_failure
        ? Error(ErrorKind::internal, "another rank of the test has failed", "read its words")
        : Error(ErrorKind::timeout,
                fmt::format("{} of {} ranks met within {} s", waiting, gathered.size(), kTimeout.count()),
                "look for a rank that waits elsewhere");
  }

  ThreadedRun& run;
  std::size_t waiting = 0;
  std::uint64_t meetings = 0;
  std::vector<std::vector<std::byte>> gathered;
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
    world_.meet();
    auto all = world_.gathered;
    world_.meet();
    return all;
  }

  std::int64_t max(std::int64_t mine) override {
    for (const auto& bytes : all_gather(std::as_bytes(std::span(&mine, 1)))) {
      mine = std::max(mine, *reinterpret_cast<const std::int64_t*>(bytes.data()));
    }
    return mine;
  }

  void barrier() override { world_.meet(); }
  void barrier_polling(const std::function<void()>& poll) override { world_.meet(poll); }

  std::unique_ptr<Bootstrap> split(int color) override {
    const auto colors = all_gather(std::as_bytes(std::span(&color, 1)));
    int size = 0, rank = 0;
    for (int other = 0; other < this->size(); ++other) {
      if (*reinterpret_cast<const int*>(colors[static_cast<std::size_t>(other)].data()) != color) continue;
      rank += other < rank_ ? 1 : 0;
      ++size;
    }
    const std::lock_guard lock(world_.run.mutex);
    auto& part = world_.parts[{splits_++, color}];
    if (!part) part = std::make_shared<ThreadedWorld>(world_.run, size);
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

// Runs `rank_main` on `size` threads. Assertions of Catch2 are not safe in threads: collect results there, check after.
// The first exception of a rank ends the waiting of the others and is thrown again here.
inline void run_ranks(int size, const std::function<void(Bootstrap&)>& rank_main) {
  ThreadedRun run;
  ThreadedWorld world(run, size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadedBootstrap bootstrap(world, rank);
      try {
        rank_main(bootstrap);
      } catch (...) {
        run.fail(std::current_exception());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (run.first_failure) std::rethrow_exception(run.first_failure);
}

}  // namespace mrb::test
