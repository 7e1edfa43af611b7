#include "transport/progress_thread.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

namespace mrb {

namespace {

// After so many polls that brought nothing the thread gives its core away, and after so many more it sleeps, or it
// would take a core from those who compute.
constexpr int kPollsBeforeYield = 64;
constexpr int kPollsBeforeSleep = 4096;
constexpr std::chrono::microseconds kSleep{50};

class ProgressThread final : public Transport {
 public:
  explicit ProgressThread(std::unique_ptr<Transport> inner)
      : inner_(std::move(inner)), capabilities_(inner_->capabilities()) {
    capabilities_.provider += ", progress thread";
    thread_ = std::thread([this] { run(); });
  }
  ~ProgressThread() override {
    is_ending_ = true;
    thread_.join();
  }

  const TransportCapabilities& capabilities() const override { return capabilities_; }

  RegionId expose(std::span<std::byte> memory) override {
    const Turn turn(*this);
    return inner_->expose(memory);
  }

  void withdraw(RegionId region) override {
    const Turn turn(*this);
    inner_->withdraw(region);
  }

  bool try_put(const Put& put) override {
    const Turn turn(*this);
    throw_failure();
    return inner_->try_put(put);
  }

  void poll(std::vector<std::uint32_t>& arrived) override {
    const Turn turn(*this);
    throw_failure();
    arrived.insert(arrived.end(), arrived_.begin(), arrived_.end());
    arrived_.clear();
    inner_->poll(arrived);
  }

  std::size_t pending_puts() const override {
    const Turn turn(*this);
    return inner_->pending_puts();
  }

  std::string state() const override {
    const Turn turn(*this);
    return inner_->state() + (failure_ ? "; the progress thread has failed" : "");
  }

 private:
  // The mutex, with the thread told that somebody waits for it: mutexes are not fair, and it locks again at once.
  class Turn {
   public:
    explicit Turn(const ProgressThread& owner) : owner_(owner) {
      owner_.waiting_.fetch_add(1, std::memory_order_relaxed);
      owner_.mutex_.lock();
      owner_.waiting_.fetch_sub(1, std::memory_order_relaxed);
    }
    ~Turn() { owner_.mutex_.unlock(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    const ProgressThread& owner_;
  };

  void throw_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  enum class Progress { none, waiting, some };

  Progress poll_once() {
    const std::lock_guard lock(mutex_);
    const std::size_t before = arrived_.size();
    try {
      inner_->poll(arrived_);
    } catch (...) {
      failure_ = std::current_exception();
      is_ending_ = true;
    }
    if (arrived_.size() > before) return Progress::some;
    return inner_->pending_puts() > 0 ? Progress::waiting : Progress::none;
  }

  void run() {
    for (int idle_polls = 0; !is_ending_;) {
      if (waiting_.load(std::memory_order_relaxed) > 0) {
        sched_yield();
        continue;
      }
      const Progress progress = poll_once();
      idle_polls = progress == Progress::some ? 0 : std::min(idle_polls + 1, kPollsBeforeSleep + 1);
      if (idle_polls > kPollsBeforeSleep && progress == Progress::none) {
        std::this_thread::sleep_for(kSleep);
      } else if (idle_polls > kPollsBeforeYield) {
        sched_yield();
      }
    }
  }

  std::unique_ptr<Transport> inner_;
  TransportCapabilities capabilities_;
  mutable std::mutex mutex_;  // of all below but the atomics, and of the inner transport
  mutable std::atomic<int> waiting_ = 0;
  std::atomic<bool> is_ending_ = false;
  std::vector<std::uint32_t> arrived_;  // since the caller's last poll()
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Transport> with_progress_thread(std::unique_ptr<Transport> inner) {
  return std::make_unique<ProgressThread>(std::move(inner));
}

}  // namespace mrb
