#include "kernels/emulation/fiber.hpp"

#include <utility>

// Of the address sanitizer's runtime; null without it.
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t bytes);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** old_bottom, std::size_t* old_bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const void volatile*, std::size_t);
}

namespace mrb::emulation {

namespace {

void begin_switch(void** fake_stack, const void* bottom, std::size_t bytes) {
  if (__sanitizer_start_switch_fiber != nullptr) __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
}

void end_switch(void* fake_stack, const void** old_bottom, std::size_t* old_bytes) {
  if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(fake_stack, old_bottom, old_bytes);
}

// Boost asks it for a stack; it has one, and keeps it.
struct BorrowedStack {
  std::byte* memory;

  boost::context::stack_context allocate() {
    boost::context::stack_context context;
    context.size = Fiber::kStackBytes;
    context.sp = memory + Fiber::kStackBytes;
    return context;
  }
  void deallocate(boost::context::stack_context&) {}
};

}  // namespace

Fiber::Fiber(FiberStack stack, std::function<void()> work) : stack_(std::move(stack)), work_(std::move(work)) {
  if (!stack_.memory) stack_.memory = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  // The last fiber's frames are gone, their red zones are not.
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(stack_.memory.get(), kStackBytes);
  inside_ = boost::context::fiber(std::allocator_arg, BorrowedStack{stack_.memory.get()},
                                  [this](boost::context::fiber&& outside) {
                                    end_switch(nullptr, &outside_stack_, &outside_bytes_);
                                    outside_ = std::move(outside);
                                    work_();
                                    done_ = true;
                                    begin_switch(nullptr, outside_stack_, outside_bytes_);
                                    return std::move(outside_);
                                  });
}

void Fiber::enter() {
  void* fake_stack = nullptr;
  begin_switch(&fake_stack, stack_.memory.get(), kStackBytes);
  inside_ = std::move(inside_).resume();
  end_switch(fake_stack, nullptr, nullptr);
}

void Fiber::leave() {
  begin_switch(&inside_fake_, outside_stack_, outside_bytes_);
  outside_ = std::move(outside_).resume();
  end_switch(inside_fake_, &outside_stack_, &outside_bytes_);
}

}  // namespace mrb::emulation
