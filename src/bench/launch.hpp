// One launch: transport, buffers, dispatcher and policy made anew, then some steps.
#pragma once

#include <functional>
#include <memory>

#include "base/clock.hpp"
#include "bench/experiment.hpp"
#include "cluster/bootstrap.hpp"

namespace mrb {

struct LaunchContext {
  Bootstrap& bootstrap;
  const Clock& clock;
  int ranks_per_node = 0;  // of the machines; 0: all ranks are on one
  int threads = 1;         // per rank, where the configuration leaves it to us
};

class Launch {
 public:
  // Collective. Sets everything up. An Error is thrown on all ranks alike.
  Launch(const Experiment&, const LaunchContext&);
  ~Launch();  // collective, unless an exception is on its way

  // Collective. Compares the dispatcher with the reference on this experiment's shapes. Error(wrong_result) is thrown
  // on all ranks alike; any other error is the end of the run, as in run().
  void check();

  // Collective. Runs this many steps; stops early, on all ranks, once `interrupted` is true on any. The samples are
  // complete on rank 0 and empty elsewhere. Errors in here are the end of the run: other ranks may be waiting.
  LaunchSample run(int warmup_steps, int counted_steps, const std::function<bool()>& interrupted);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mrb
