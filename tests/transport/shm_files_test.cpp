#include "transport/libfabric/shm_files.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "support/catch.hpp"

using namespace mrb;
namespace fs = std::filesystem;

namespace {

// The name that a process which has ended gave to its endpoint.
std::string name_of_a_dead_process() {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string name = next_shm_endpoint_name();
    _exit(write(pipe_ends[1], name.data(), name.size()) == static_cast<ssize_t>(name.size()) ? 0 : 1);
  }
  char text[256];
  const ssize_t length = read(pipe_ends[0], text, sizeof text);
  waitpid(child, nullptr, 0);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  REQUIRE(length > 0);
  return std::string(text, static_cast<std::size_t>(length));
}

std::string with_field(const std::string& name, int field, const std::string& value) {
  std::size_t begin = 0;
  for (int i = 0; i < field; ++i) begin = name.find('-', begin) + 1;
  return name.substr(0, begin) + value + name.substr(name.find('-', begin));
}

}  // namespace

TEST_CASE("only files of our own dead processes are removed", "[transport]") {
  const fs::path folder = fs::temp_directory_path() / ("mrb_shm_files_" + std::to_string(getpid()));
  fs::create_directory(folder);
  const std::string dead = name_of_a_dead_process();
  const std::string alive = next_shm_endpoint_name();
  const std::set<std::string> kept = {
      alive + ":0:0",
      with_field(dead, 1, "4242424") + ":0:0",  // another user's
      with_field(dead, 2, "1") + ":0:0",        // of another pid namespace
      "1234:0:0",                               // another program's endpoint
      "mrb-notes",
      "vader_segment.host.0",
      "nccl-abcdef"  // other files
  };
  const std::set<std::string> stale = {
      dead + ":0:0", with_field(alive, 4, "1") + ":0:0",  // this pid, but of a process that started at another time
  };
  for (const auto& name : kept) std::ofstream(folder / name) << "x";
  for (const auto& name : stale) std::ofstream(folder / name) << "x";
  fs::create_directory(folder / (dead + "-folder"));

  CHECK(remove_stale_shm_files(folder.string()) == 2);
  for (const auto& name : kept) CHECK(fs::exists(folder / name));
  for (const auto& name : stale) CHECK_FALSE(fs::exists(folder / name));
  CHECK(fs::exists(folder / (dead + "-folder")));
  fs::remove_all(folder);
}

TEST_CASE("each endpoint of a process has its own name", "[transport]") {
  CHECK(next_shm_endpoint_name() != next_shm_endpoint_name());
}
