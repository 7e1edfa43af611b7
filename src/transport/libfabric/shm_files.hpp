// The files that endpoints of the shm provider keep in /dev/shm. One of a process that was killed stays
// behind, so ours carry names that tell whose they are.
#pragma once

#include <string>

namespace mrb {

// A name for the next endpoint of this process: "mrb-<user>-<pid namespace>-<pid>-<start time>-<count>". The
// provider appends to it.
std::string next_shm_endpoint_name();

// Removes the files in `folder` that have such a name, belong to this user, and whose process, of this pid
// namespace, is gone. All others stay: those of other programs, of other namespaces (whose processes cannot
// be seen from here), and those it may not remove. Returns how many were removed.
int remove_stale_shm_files(const std::string& folder = "/dev/shm");

}  // namespace mrb
