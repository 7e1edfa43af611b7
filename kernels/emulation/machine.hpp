// A small machine that runs kernels as a GPU does, on one thread of the host: grids of blocks, blocks of threads, warps
// of 32 lanes. Every thread is a fiber; after each point where threads meet, and at each atomic, another one may go on,
// drawn by a seed. So code that needs an order it does not ask for gets another one, and another result.
//
// What it finds, each as a Fault that names the kernel, the block, the threads and the line:
//   - a barrier that some threads of a block do not reach, or reach at another line
//   - a warp function whose mask names a lane that does not come, leaves out its caller, or differs between lanes
//   - a shuffle that reads a lane outside the mask
//   - threads that wait for each other, or spin for ever
//   - words put into a peer's memory that are announced without a release: they arrive late (see put_word())
// Memory out of bounds is found by the address sanitizer, which knows of the fibers.
//
// What it does not model: time, caches, weak order between plain loads and stores of one GPU, two-dimensional grids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace mrb::emulation {

// What a kernel did that no GPU would allow, or that only some would forgive.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct GridShape {
  unsigned blocks = 0;
  unsigned threads = 0;  // of one block, at most 1024
  std::size_t shared_bytes = 0;
};

struct Grid {
  std::string kernel;  // its name
  GridShape shape;
  std::function<void()> thread_main;  // runs as every thread
  const void* stream = nullptr;       // grids of one stream run one after the other
};

// Another seed is another schedule: the order of threads, of blocks and of arrivals in peers' memory, and how many blocks
// are on the machine at once. Three seeds in a row draw the order anew each time, by thread and by warp.
void set_schedule(std::uint64_t seed);

// Returns when all threads are done. Throws Fault.
void run_grid(Grid);

// Grids launched while it lives are kept, and run() runs them at the same time but for those of one stream, all of their
// blocks on the machine at once: for kernels that wait for each other.
class Together {
 public:
  Together();
  ~Together();
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  void run();

 private:
  friend void run_grid(Grid);
  std::vector<Grid> grids_;
};

// ---- What the running thread asks for; device_functions.hpp gives it the names that CUDA has for it.

unsigned thread_index();
unsigned block_index();
unsigned block_threads();
unsigned grid_blocks();

// Memory of the running block: uninitialised (no thread may rely on what is there), of exactly this size. `site` tells
// the arrays of one block apart. Shared memory that the launch gave is at site null.
void* shared_memory(const void* site, std::size_t bytes);

void meet_block(std::source_location);

// What the lanes of a warp do together.
enum class WarpFunction { sync, shuffle, ballot, match, add, min_unsigned, max_unsigned };

// Returns when all lanes of `mask` have called it: for shuffle the value of the lane `argument`, else what the function
// makes of all values.
std::uint64_t meet_warp(WarpFunction, std::uint32_t mask, std::uint64_t value, unsigned argument, std::source_location);

// Others may go on.
void pause();

// Up to 16 bytes into memory that another device reads. As over a link, they arrive at some later time and in any order;
// a release of a thread that knows of them (its own store, or one before a barrier they both passed) makes them arrive
// before.
void put_word(void* to, const void* word, std::size_t bytes);
void release();

// Moves on with every call.
std::uint64_t time_ns();

}  // namespace mrb::emulation
