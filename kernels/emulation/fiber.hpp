// One thread of execution on a stack of its own, switched by hand; the address sanitizer is told of every switch.
#pragma once

#include <boost/context/fiber.hpp>
#include <cstddef>
#include <functional>
#include <memory>

namespace mrb::emulation {

// A stack that is used again by the next fiber.
struct FiberStack {
  std::unique_ptr<std::byte[]> memory;
};

class Fiber {
 public:
  static constexpr std::size_t kStackBytes = 64 * 1024;

  // `work` must not throw.
  Fiber(FiberStack stack, std::function<void()> work);

  // Called from outside: goes on inside, until it leaves or ends.
  void enter();
  // Called from inside: goes on outside, until it is entered again.
  void leave();

  bool is_done() const { return done_; }
  FiberStack take_stack() { return std::move(stack_); }

 private:
  FiberStack stack_;
  std::function<void()> work_;
  boost::context::fiber inside_, outside_;
  bool done_ = false;

  // What the sanitizer needs to know of the other side.
  const void* outside_stack_ = nullptr;
  std::size_t outside_bytes_ = 0;
  void* inside_fake_ = nullptr;
};

}  // namespace mrb::emulation
