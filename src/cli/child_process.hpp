// Another program started from here, which never outlives us and hears the signals that we hear.
#pragma once

#include <string>
#include <vector>

namespace mrb {

struct ChildEnd {
  int exit_code = 0;         // or 128 and the signal that ended it
  int signal_handed_on = 0;  // the last one that came to us meanwhile; 0: none
};

// Starts the words as a program, looked up on PATH, and waits for its end. Its stdout and stderr go to `log`, or where
// ours go when that is empty. Throws Error(environment) with `fix` when it cannot be started.
ChildEnd run_child(const std::vector<std::string>& words, const std::string& log, const std::string& fix);

}  // namespace mrb
