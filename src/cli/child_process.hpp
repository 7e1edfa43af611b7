// Another program started from here, which never outlives us and hears the signals that we hear.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mrb {

struct ChildEnd {
  int exit_code = 0;         // or 128 and the signal that ended it
  int signal_handed_on = 0;  // the last one that came to us meanwhile; 0: none
};

// Looks after a child that may have to be ended.
class ChildWatch {
 public:
  virtual ~ChildWatch() = default;

  // What the child has said on stderr.
  virtual void hear(std::string_view words) = 0;
  // The signal that it is to get now; 0: none. Asked about every 50 ms.
  virtual int signal_due() = 0;
};

// Starts the words as a program, looked up on PATH, and waits for its end. Its stdout and stderr go to `log`, or where
// ours go when that is empty; with a watch, its stderr goes there. Throws Error(environment) with `fix` when it cannot be
// started.
ChildEnd run_child(const std::vector<std::string>& words, const std::string& log, const std::string& fix,
                   ChildWatch* watch = nullptr);

}  // namespace mrb
