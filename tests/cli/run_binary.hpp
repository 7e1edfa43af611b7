// The program as users start it.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "support/temporary_file.hpp"

namespace mrb::test {

struct Finished {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string text_of(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Runs `moe-rl-bench <arguments>` by a shell, from a folder of its own, as if no launcher had started us.
inline Finished run_binary(const std::string& arguments, const std::string& before = "") {
  const TemporaryFolder folder;
  const std::string command = "cd " + folder.path() +
                              " && env -u OMPI_COMM_WORLD_SIZE -u OMPI_COMM_WORLD_RANK -u PMIX_RANK " + before +
                              " timeout 120 " + MRB_BINARY + " " + arguments + " >out 2>err </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(folder.path() + "/out"),
          text_of(folder.path() + "/err")};
}

}  // namespace mrb::test
