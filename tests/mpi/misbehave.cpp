// Ranks that misbehave in the way that the argument names, for misbehave.sh.
#include <unistd.h>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "base/aligned_buffer.hpp"
#include "cluster/bootstrap.hpp"
#include "transport/transport.hpp"

namespace {

// Rank 0 comes to a barrier to which the others do not come.
void be_silent(mrb::Bootstrap& bootstrap) {
  if (bootstrap.rank() == 0) bootstrap.barrier();
  std::this_thread::sleep_for(std::chrono::seconds(60));
}

// Opens a transport over shared memory; with `die`, rank 0 is killed while it is open.
void open_shm(mrb::Bootstrap& bootstrap, bool die) {
  const auto transport = mrb::make_transport("libfabric", bootstrap, {.provider = "shm"});
  const mrb::AlignedBuffer memory(1000);
  transport->expose(memory.bytes());
  if (die && bootstrap.rank() == 0) {
    std::printf("killed pid %d\n", getpid());
    std::fflush(stdout);
    std::raise(SIGKILL);
  }
  bootstrap.barrier();
}

}  // namespace

int main(int, char** argv) {
  const std::string way = argv[1];
  try {
    const auto bootstrap = mrb::make_bootstrap("mpi", {.timeout_s = way == "silent" ? 0.5 : 30});
    if (way == "silent") be_silent(*bootstrap);
    if (way == "crash" || way == "well") open_shm(*bootstrap, way == "crash");
    return 0;
  } catch (const mrb::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
