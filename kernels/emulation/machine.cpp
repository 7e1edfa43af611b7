#include "kernels/emulation/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <bitset>
#include <cstring>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/emulation/fiber.hpp"

namespace mrb::emulation {

namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kThreadsMax = 1024;
constexpr std::uint64_t kPausesMax = 1'000'000;  // of one grid, in a row: nobody comes any more
constexpr unsigned kNoise = 0x7f;                // what uninitialised memory holds: huge as f32, f64 and integer

struct Block;

struct Thread {
  Thread(Block* of, unsigned number) : block(of), index(number) {}

  Block* block;
  unsigned index;
  std::uint64_t priority = 0;
  std::optional<Fiber> fiber;
  std::uint64_t result = 0;  // of the warp function that it waits for
  bool done = false;

  unsigned lane() const { return index % kLanes; }
};

// Lanes on their way into one warp function.
struct Meeting {
  WarpFunction function;
  std::uint32_t mask = 0;
  std::uint32_t arrived = 0;
  std::source_location where;
  std::uint64_t values[kLanes] = {};
  unsigned arguments[kLanes] = {};
};

// A word on its way to a peer, and the threads that know that it was sent.
struct FlyingWord {
  void* to;
  unsigned char word[16];
  std::size_t bytes;
  std::bitset<kThreadsMax> known_to;
};

struct Block {
  const Grid* grid = nullptr;
  unsigned index = 0;
  std::deque<Thread> threads;
  std::vector<std::vector<Meeting>> meetings;  // by warp
  std::map<const void*, std::unique_ptr<std::byte[]>> shared;
  unsigned waiting = 0;  // at the barrier
  std::source_location barrier;
  unsigned done = 0;
  std::vector<FlyingWord> flying;

  Thread& lane(unsigned warp, unsigned lane) { return threads[warp * kLanes + lane]; }
};

// Thrown through the frames of threads that will not go on.
struct Abandoned {};

std::string_view name_of(WarpFunction function) {
  constexpr std::string_view kNames[] = {"__syncwarp",       "a shuffle",         "__ballot_sync",
                                         "__match_any_sync", "__reduce_add_sync", "__reduce_min_sync",
                                         "__reduce_max_sync"};
  return kNames[static_cast<std::size_t>(function)];
}

std::string text(const std::source_location& where) {
  const std::string_view file = where.file_name();
  return fmt::format("{}:{}", file.substr(file.rfind('/') + 1), where.line());
}

bool same_place(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() && std::string_view(a.file_name()) == b.file_name();
}

template <class Take>
void for_each_lane(std::uint32_t mask, const Take& take) {
  for (; mask != 0; mask &= mask - 1) take(static_cast<unsigned>(std::countr_zero(mask)));
}

// The blocks that may start: of each stream, those of the first grid that is not done.
class Streams {
 public:
  // `draw` chooses below a limit.
  Streams(std::span<const Grid> grids, std::function<std::uint64_t(std::uint64_t)> draw) : draw_(std::move(draw)) {
    for (const Grid& grid : grids) {
      if (grid.shape.blocks > 0) streams_[grid.stream].push_back({&grid, grid.shape.blocks});
    }
    for (const auto& [stream, waiting] : streams_) begin(waiting.front());
  }

  bool has_next() const { return !ready_.empty(); }
  std::pair<const Grid*, unsigned> take() {
    std::swap(ready_[draw_(ready_.size())], ready_.back());
    const auto next = ready_.back();
    ready_.pop_back();
    return next;
  }

  // One more block of it.
  void is_done(const Grid& grid) {
    std::deque<Waiting>& waiting = streams_[grid.stream];
    if (--waiting.front().blocks_left > 0) return;
    waiting.pop_front();
    if (!waiting.empty()) begin(waiting.front());
  }

 private:
  struct Waiting {
    const Grid* grid;
    unsigned blocks_left;
  };

  void begin(const Waiting& waiting) {
    for (unsigned block = 0; block < waiting.grid->shape.blocks; ++block) ready_.emplace_back(waiting.grid, block);
  }

  std::function<std::uint64_t(std::uint64_t)> draw_;
  std::map<const void*, std::deque<Waiting>> streams_;
  std::vector<std::pair<const Grid*, unsigned>> ready_;
};

class Machine {
 public:
  void set_schedule(std::uint64_t seed) {
    random_ = seed * 0x9e3779b97f4a7c15 + 1;
    policy_ = static_cast<Policy>(seed % 3);
  }

  void run(std::span<const Grid> grids, std::size_t blocks_at_once);

  Thread& running() {
    if (running_ == nullptr) throw std::logic_error("a device function was called outside of a kernel");
    return *running_;
  }

  void wait() {  // until somebody makes the running thread ready
    running_->fiber->leave();
    if (abandoning_) throw Abandoned();
  }
  void make_ready(Thread& thread) { make_ready(thread, priority_of(thread)); }
  void pause() {
    Thread& thread = running();
    if (++pauses_ > kPausesMax) fail(thread, "threads spin, and nobody comes to end it");
    // With priorities that stay, it goes behind all others sooner or later, or nobody could do what it waits for.
    const bool steps_back = policy_ != Policy::drawn_each_time && draw(8) == 0;
    make_ready(thread, steps_back ? draw(kLowPriorities) : priority_of(thread));
    wait();
  }
  void progress() { pauses_ = 0; }

  // The next one, below `limit`.
  std::uint64_t draw(std::uint64_t limit) {  // splitmix64
    std::uint64_t z = random_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % limit;
  }

  [[noreturn]] void fail(const Thread& thread, const std::string& what) const { fail(*thread.block, what); }
  [[noreturn]] void fail(const Block& block, const std::string& what) const {
    throw Fault(fmt::format("kernel {}, block {}: {}", block.grid->kernel, block.index, what));
  }

  void land(Block& block, std::size_t index) {
    const FlyingWord& word = block.flying[index];
    std::memcpy(word.to, word.word, word.bytes);
    block.flying.erase(block.flying.begin() + static_cast<std::ptrdiff_t>(index));
  }

  std::uint64_t time_ns = 0;

 private:
  void start(const Grid& grid, unsigned index);
  void thread_main(Thread& thread);
  void end_thread(Thread& thread);
  void abandon();
  [[noreturn]] void report_standstill();

  // Who goes on: the one with the highest priority. Drawn anew each time, every order is possible, but a thread far ahead
  // of the others is rare; with priorities that stay, it is the rule (Burckhardt et al.: A randomized scheduler with
  // probabilistic guarantees of finding bugs).
  enum class Policy { drawn_each_time, by_thread, by_warp };
  static constexpr std::uint64_t kLowPriorities = 1 << 20;

  std::uint64_t priority_of(Thread& thread) {
    switch (policy_) {
      case Policy::drawn_each_time:
        return kLowPriorities + draw(std::uint64_t{1} << 40);
      case Policy::by_thread:
        return thread.priority;
      case Policy::by_warp:
        return thread.block->lane(thread.index / kLanes, 0).priority;
    }
    return 0;
  }
  void make_ready(Thread& thread, std::uint64_t priority) {
    ready_.push_back({priority, draw(std::uint64_t{1} << 40), &thread});
    std::ranges::push_heap(ready_);
  }

  // The next to go on; not empty.
  Thread* take_ready() {
    std::ranges::pop_heap(ready_);
    Thread* const thread = ready_.back().thread;
    ready_.pop_back();
    return thread;
  }

  struct Ready {
    std::uint64_t priority;
    std::uint64_t among_equals;
    Thread* thread;

    friend auto operator<=>(const Ready&, const Ready&) = default;
  };

  std::uint64_t random_ = 1;
  Policy policy_ = Policy::drawn_each_time;
  std::list<Block> blocks_;   // on the machine; threads point to them
  std::vector<Ready> ready_;  // a heap
  std::vector<FiberStack> stacks_;
  Thread* running_ = nullptr;
  bool abandoning_ = false;
  std::uint64_t pauses_ = 0;
  std::exception_ptr failure_;
};

Machine& machine() {
  static thread_local Machine machine;
  return machine;
}

void Machine::start(const Grid& grid, unsigned index) {
  Block& block = blocks_.emplace_back();
  block.grid = &grid;
  block.index = index;
  block.meetings.resize((grid.shape.threads + kLanes - 1) / kLanes);
  for (unsigned thread = 0; thread < grid.shape.threads; ++thread) {
    block.threads.emplace_back(&block, thread).priority = kLowPriorities + draw(std::uint64_t{1} << 40);
    make_ready(block.threads.back());
  }
}

void Machine::thread_main(Thread& thread) {
  try {
    thread.block->grid->thread_main();
    end_thread(thread);
  } catch (const Abandoned&) {
  } catch (...) {
    failure_ = std::current_exception();
  }
  thread.done = true;
}

void Machine::end_thread(Thread& thread) {
  Block& block = *thread.block;
  progress();
  ++block.done;
  if (block.waiting > 0) {
    fail(thread, fmt::format("thread {} left the kernel, and {} threads wait for it at the barrier in {}", thread.index,
                             block.waiting, text(block.barrier)));
  }
  for (const Meeting& meeting : block.meetings[thread.index / kLanes]) {
    if ((meeting.mask >> thread.lane() & 1) != 0) {
      fail(thread, fmt::format("thread {} left the kernel, and {} in {} waits for it: its mask is {:#010x}",
                               thread.index, name_of(meeting.function), text(meeting.where), meeting.mask));
    }
  }
}

void Machine::run(std::span<const Grid> grids, std::size_t blocks_at_once) {
  for (const Grid& grid : grids) {
    if (grid.shape.threads < 1 || grid.shape.threads > kThreadsMax) {
      throw Fault(fmt::format("kernel {}: a block of {} threads, 1 to {} are possible", grid.kernel, grid.shape.threads,
                              kThreadsMax));
    }
  }
  Streams to_start(grids, [this](std::uint64_t limit) { return draw(limit); });
  pauses_ = 0;
  failure_ = nullptr;
  try {
    while (to_start.has_next() || !blocks_.empty()) {
      while (blocks_.size() < blocks_at_once && to_start.has_next()) {
        const auto [grid, block] = to_start.take();
        start(*grid, block);
      }
      if (ready_.empty()) report_standstill();
      running_ = take_ready();
      if (!running_->fiber) {
        FiberStack stack;
        if (!stacks_.empty()) {
          stack = std::move(stacks_.back());
          stacks_.pop_back();
        }
        running_->fiber.emplace(std::move(stack), [this, thread = running_] { thread_main(*thread); });
      }
      running_->fiber->enter();
      Thread& thread = *std::exchange(running_, nullptr);
      if (failure_) std::rethrow_exception(failure_);
      if (!thread.done) continue;
      stacks_.push_back(thread.fiber->take_stack());
      Block& block = *thread.block;
      if (block.done < block.threads.size()) continue;
      while (!block.flying.empty()) land(block, draw(block.flying.size()));
      to_start.is_done(*block.grid);
      blocks_.remove_if([&](const Block& b) { return &b == &block; });
    }
  } catch (...) {
    abandon();
    throw;
  }
}

// Every thread that had begun comes back through its frames.
void Machine::abandon() {
  abandoning_ = true;
  ready_.clear();
  for (Block& block : blocks_) {
    for (Thread& thread : block.threads) {
      if (!thread.fiber || thread.done) continue;
      running_ = &thread;
      thread.fiber->enter();
    }
  }
  running_ = nullptr;
  blocks_.clear();
  abandoning_ = false;
}

void Machine::report_standstill() {
  std::string waits;
  for (const Block& block : blocks_) {
    if (block.waiting > 0) {
      waits += fmt::format("; {} of {} threads of block {} wait at the barrier in {}", block.waiting,
                           block.threads.size(), block.index, text(block.barrier));
    }
    for (std::size_t warp = 0; warp < block.meetings.size(); ++warp) {
      for (const Meeting& meeting : block.meetings[warp]) {
        waits += fmt::format("; warp {} of block {} waits in {} in {} for lanes {:#010x} of its mask {:#010x}", warp,
                             block.index, name_of(meeting.function), text(meeting.where),
                             meeting.mask & ~meeting.arrived, meeting.mask);
      }
    }
  }
  fail(blocks_.front(), "no thread can go on" + waits);
}

// ---- Warp functions

std::uint64_t fold(const Meeting& meeting, std::uint64_t (*join)(std::uint64_t, std::uint64_t)) {
  std::optional<std::uint64_t> folded;
  for_each_lane(meeting.mask,
                [&](unsigned lane) { folded = folded ? join(*folded, meeting.values[lane]) : meeting.values[lane]; });
  return *folded;
}

std::uint64_t result_for(const Meeting& meeting, unsigned lane) {
  std::uint64_t lanes = 0;
  switch (meeting.function) {
    case WarpFunction::sync:
      return 0;
    case WarpFunction::shuffle:
      return meeting.values[meeting.arguments[lane]];
    case WarpFunction::ballot:
      for_each_lane(meeting.mask, [&](unsigned other) { lanes |= std::uint64_t{meeting.values[other] != 0} << other; });
      return lanes;
    case WarpFunction::match:
      for_each_lane(meeting.mask, [&](unsigned other) {
        lanes |= std::uint64_t{meeting.values[other] == meeting.values[lane]} << other;
      });
      return lanes;
    case WarpFunction::add:
      return fold(meeting, [](std::uint64_t a, std::uint64_t b) { return a + b; });
    case WarpFunction::min_unsigned:
      return fold(meeting, [](std::uint64_t a, std::uint64_t b) { return std::min(a, b); });
    case WarpFunction::max_unsigned:
      return fold(meeting, [](std::uint64_t a, std::uint64_t b) { return std::max(a, b); });
  }
  return 0;
}

// The meeting that the thread joins, checked; a new one if there is none for its mask.
Meeting& join(Thread& thread, WarpFunction function, std::uint32_t mask, const std::source_location& where) {
  Block& block = *thread.block;
  const unsigned warp = thread.index / kLanes;
  const auto fail = [&](const std::string& what) {
    machine().fail(thread, fmt::format("{} in {}, called by lane {} of warp {} with mask {:#010x}: {}",
                                       name_of(function), text(where), thread.lane(), warp, mask, what));
  };
  if ((mask >> thread.lane() & 1) == 0) fail("the caller is not in the mask");
  for_each_lane(mask, [&](unsigned lane) {
    if (warp * kLanes + lane >= block.threads.size()) fail(fmt::format("there is no lane {} in this warp", lane));
    if (block.lane(warp, lane).done) fail(fmt::format("lane {} has left the kernel", lane));
  });
  for (Meeting& meeting : block.meetings[warp]) {
    if ((meeting.mask & mask) == 0) continue;
    if (meeting.mask != mask) fail(fmt::format("lanes of it wait with mask {:#010x}", meeting.mask));
    if (meeting.function != function || !same_place(meeting.where, where)) {
      fail(fmt::format("lanes of it wait in {} in {}", name_of(meeting.function), text(meeting.where)));
    }
    return meeting;
  }
  return block.meetings[warp].emplace_back(Meeting{.function = function, .mask = mask, .where = where});
}

// What one of them knew to be sent, all of them know now.
void share_knowledge(Block& block, const std::bitset<kThreadsMax>& threads) {
  for (FlyingWord& word : block.flying) {
    if ((word.known_to & threads).any()) word.known_to |= threads;
  }
}

}  // namespace

std::uint64_t meet_warp(WarpFunction function, std::uint32_t mask, std::uint64_t value, unsigned argument,
                        std::source_location where) {
  Thread& thread = machine().running();
  Block& block = *thread.block;
  const unsigned warp = thread.index / kLanes;
  Meeting& meeting = join(thread, function, mask, where);
  if (function == WarpFunction::shuffle && (mask >> argument & 1) == 0) {
    machine().fail(thread,
                   fmt::format("a shuffle in {}, called by lane {} of warp {}, reads lane {}, which is not in its "
                               "mask {:#010x}",
                               text(where), thread.lane(), warp, argument, mask));
  }
  meeting.values[thread.lane()] = value;
  meeting.arguments[thread.lane()] = argument;
  meeting.arrived |= 1u << thread.lane();
  if (meeting.arrived != mask) {
    machine().wait();
    return thread.result;
  }
  machine().progress();
  std::bitset<kThreadsMax> lanes;
  for_each_lane(mask, [&](unsigned lane) {
    Thread& other = block.lane(warp, lane);
    other.result = result_for(meeting, lane);
    machine().make_ready(other);
    lanes.set(other.index);
  });
  share_knowledge(block, lanes);
  std::erase_if(block.meetings[warp], [&](const Meeting& m) { return &m == &meeting; });
  machine().wait();  // whoever comes last does not go on first
  return thread.result;
}

void meet_block(std::source_location where) {
  Thread& thread = machine().running();
  Block& block = *thread.block;
  if (block.done > 0) {
    machine().fail(thread, fmt::format("thread {} came to the barrier in {}, and {} threads have left the kernel",
                                       thread.index, text(where), block.done));
  }
  if (block.waiting > 0 && !same_place(block.barrier, where)) {
    machine().fail(thread, fmt::format("thread {} came to the barrier in {}, and others wait at the one in {}",
                                       thread.index, text(where), text(block.barrier)));
  }
  block.barrier = where;
  if (++block.waiting == block.threads.size()) {
    machine().progress();
    block.waiting = 0;
    for (Thread& other : block.threads) machine().make_ready(other);
    share_knowledge(block, std::bitset<kThreadsMax>().set());
  }
  machine().wait();
}

void pause() {
  Thread& thread = machine().running();
  std::vector<FlyingWord>& flying = thread.block->flying;
  if (!flying.empty() && machine().draw(4) == 0) machine().land(*thread.block, machine().draw(flying.size()));
  machine().pause();
}

void put_word(void* to, const void* word, std::size_t bytes) {
  Thread& thread = machine().running();
  FlyingWord& flying = thread.block->flying.emplace_back();
  flying.to = to;
  static_cast<void>(*static_cast<volatile unsigned char*>(to));  // the sanitizer looks here, where the kernel is known
  flying.bytes = bytes;
  std::memcpy(flying.word, word, bytes);
  flying.known_to.set(thread.index);
}

void release() {
  Thread& thread = machine().running();
  std::vector<FlyingWord>& flying = thread.block->flying;
  for (std::size_t i = flying.size(); i-- > 0;) {
    if (flying[i].known_to[thread.index]) machine().land(*thread.block, i);
  }
}

std::uint64_t time_ns() {
  return machine().time_ns += 100;
}

unsigned thread_index() {
  return machine().running().index;
}

unsigned block_index() {
  return machine().running().block->index;
}

unsigned block_threads() {
  return machine().running().block->grid->shape.threads;
}

unsigned grid_blocks() {
  return machine().running().block->grid->shape.blocks;
}

void* shared_memory(const void* site, std::size_t bytes) {
  Block& block = *machine().running().block;
  auto& memory = block.shared[site];
  if (!memory) {
    if (site == nullptr) bytes = block.grid->shape.shared_bytes;
    memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memset(memory.get(), kNoise, bytes);
  }
  return memory.get();
}

// ---- Launches

namespace {

thread_local Together* together = nullptr;

}  // namespace

void set_schedule(std::uint64_t seed) {
  machine().set_schedule(seed);
}

void run_grid(Grid grid) {
  if (together != nullptr) {
    together->grids_.push_back(std::move(grid));
    return;
  }
  machine().run({&grid, 1}, 1 + machine().draw(3));
}

Together::Together() {
  if (std::exchange(together, this) != nullptr) throw std::logic_error("one Together inside another");
}

Together::~Together() {
  together = nullptr;
}

void Together::run() {
  const std::vector<Grid> grids = std::exchange(grids_, {});
  std::size_t blocks = 0;
  for (const Grid& grid : grids) blocks += grid.shape.blocks;
  machine().run(grids, blocks);
}

}  // namespace mrb::emulation
