// A thread that runs one job at a time, for work that must go on while its owner computes.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace mrb {

class Worker {
 public:
  Worker();
  ~Worker();  // waits for the job under way
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // The job before must have been waited for. All that its owner did before is visible to the job.
  void start(std::function<void()> job);

  // Waits until the job has ended and throws what it threw. All that the job did is then visible to its owner.
  void wait();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  // empty: none
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace mrb
