// Where the kernels under test run: in emulation or on a GPU, whichever is linked. Tests are the same for both.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace mrb::test {

// Memory of the device, of exactly this size, filled with noise. What is written beside it is found: by the address
// sanitizer at once, else by read().
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  void write(const void* from);
  void read(void* to) const;  // throws when something was written beside it

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count), memory_(count * sizeof(T)) {}
  DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { memory_.write(values.data()); }

  T* data() const { return static_cast<T*>(memory_.data()); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    memory_.read(values.data());
    return values;
  }

 private:
  std::size_t count_;
  DeviceMemory memory_;
};

// Runs `test` once for each of several schedules of threads, and with few blocks to a grid as with many.
void on_every_schedule(const std::function<void()>& test);

// Each of `launches` gets a stream of its own: their kernels run at the same time, as far as the device can.
void at_the_same_time(const std::vector<std::function<void(void* stream)>>& launches);

}  // namespace mrb::test
