#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include "mpi/mpi_ranks.hpp"

#include <iostream>
#include <string>
#include <vector>

#include "support/catch.hpp"

namespace mrb::test {

static Bootstrap* ranks = nullptr;  // set once by main, which owns it

Bootstrap& mpi_ranks() {
  return *ranks;
}

void on_all_ranks(const std::function<void(Bootstrap&)>& rank_main) {
  std::string failure;
  try {
    rank_main(mpi_ranks());
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const auto failures = mpi_ranks().all_gather(std::as_bytes(std::span(failure)));
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    const std::string text(reinterpret_cast<const char*>(failures[rank].data()), failures[rank].size());
    INFO("rank " << rank << ": " << text);
    CHECK(text.empty());
  }
}

}  // namespace mrb::test

int main(int argc, char** argv) {
  try {
    const auto bootstrap = mrb::make_bootstrap("mpi", {});
    mrb::test::ranks = bootstrap.get();
    std::vector<const char*> arguments(argv, argv + argc);
    if (bootstrap->rank() != 0) arguments.insert(arguments.end(), {"--out", "/dev/null"});
    const int result = Catch::Session().run(static_cast<int>(arguments.size()), arguments.data());
    const int worst = static_cast<int>(bootstrap->max(result));
    if (worst != 0 && result == 0) std::cerr << "a test failed on another rank, outside of on_all_ranks()\n";
    return worst;
  } catch (const mrb::Error& error) {
    std::cerr << error.what() << "\n";
    return error.exit_code();
  }
}
