#include <cstring>
#include <stdexcept>

#include "cluster/agree.hpp"
#include "mpi/mpi_ranks.hpp"
#include "support/catch.hpp"

using namespace mrb;

TEST_CASE("ranks of mpirun gather bytes of any length, by rank", "[cluster]") {
  test::on_all_ranks([](Bootstrap& bootstrap) {
    for (std::size_t round = 0; round < 50; ++round) {
      // Rank r sends r * round bytes of value r: rank 0 always none, and in round 0 nobody any.
      const auto length = [&](int rank) { return static_cast<std::size_t>(rank) * round; };
      const std::vector<std::byte> mine(length(bootstrap.rank()), static_cast<std::byte>(bootstrap.rank()));
      const auto all = bootstrap.all_gather(mine);
      if (all.size() != static_cast<std::size_t>(bootstrap.size())) throw std::runtime_error("ranks are missing");
      for (int rank = 0; rank < bootstrap.size(); ++rank) {
        const std::vector<std::byte> theirs(length(rank), static_cast<std::byte>(rank));
        if (all[static_cast<std::size_t>(rank)] != theirs) throw std::runtime_error("another rank's bytes are wrong");
      }
    }
  });
}

TEST_CASE("the largest value of all ranks is known to all", "[cluster]") {
  test::on_all_ranks([](Bootstrap& bootstrap) {
    const std::int64_t big = std::int64_t{1} << 40;
    if (bootstrap.max(-big - bootstrap.rank()) != -big) throw std::runtime_error("negative values");
    if (bootstrap.max(big + bootstrap.rank()) != big + bootstrap.size() - 1) throw std::runtime_error("large values");
  });
}

TEST_CASE("an error of one process is thrown in all", "[cluster]") {
  test::on_all_ranks([](Bootstrap& bootstrap) {
    try {
      run_on_all(bootstrap, [&] {
        if (bootstrap.rank() == 1) throw Error(ErrorKind::environment, "one failed", "do this");
      });
    } catch (const Error& error) {
      const std::string text = error.what();
      if (text.find("rank 1 of") == 0 && text.find("one failed\n  fix: do this") != std::string::npos) return;
    }
    throw std::runtime_error("rank 1's error did not come");
  });
}

TEST_CASE("MPI is not started twice", "[cluster]") {
  test::on_all_ranks([](Bootstrap&) {
    try {
      make_bootstrap("mpi", {});
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::internal) return;
    }
    throw std::runtime_error("a second bootstrap was made");
  });
}
