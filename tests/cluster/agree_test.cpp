#include "cluster/agree.hpp"

#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

using namespace mrb;

namespace {

struct Outcome {
  ErrorKind kind = ErrorKind::internal;
  std::string text;  // empty when nothing was thrown
};

// What run_on_all() threw on each of `ranks` ranks.
std::vector<Outcome> outcomes(int ranks, const std::function<void(int)>& work) {
  std::vector<Outcome> found(static_cast<std::size_t>(ranks));
  test::run_ranks(ranks, [&](Bootstrap& bootstrap) {
    try {
      run_on_all(bootstrap, [&] { work(bootstrap.rank()); });
    } catch (const Error& error) {
      found[static_cast<std::size_t>(bootstrap.rank())] = {error.kind(), error.what()};
    }
  });
  return found;
}

}  // namespace

TEST_CASE("work that succeeds on all ranks throws on none", "[cluster]") {
  std::vector<int> done(3);
  for (const auto& outcome : outcomes(3, [&](int rank) { done[static_cast<std::size_t>(rank)] = 1; })) {
    CHECK(outcome.text.empty());
  }
  CHECK(done == std::vector<int>{1, 1, 1});
}

TEST_CASE("what fails on one rank fails on all, and says on which", "[cluster]") {
  const auto found = outcomes(3, [](int rank) {
    if (rank == 1) throw Error(ErrorKind::environment, "no such device: efa_0", "ask for it");
  });
  for (const auto& outcome : found) {
    CHECK(outcome.kind == ErrorKind::environment);
    CHECK_THAT(outcome.text,
               test::contains("rank 1 of 3 (") && test::contains("): no such device: efa_0\n  fix: ask for it"));
  }
}

TEST_CASE("of several failures the lowest rank's is told, with the ranks that failed", "[cluster]") {
  const auto found = outcomes(4, [](int rank) {
    if (rank == 3) throw Error(ErrorKind::config, "three", "c");
    if (rank == 2) throw Error(ErrorKind::timeout, "two", "b");
  });
  for (const auto& outcome : found) {
    CHECK(outcome.kind == ErrorKind::timeout);
    CHECK_THAT(outcome.text, test::contains("ranks 2, 3 of 4, first rank 2 (") && test::contains("two\n  fix: b") &&
                                 !test::contains("three"));
  }
}

TEST_CASE("what fails on all ranks alike is told as one rank would", "[cluster]") {
  for (const auto& outcome :
       outcomes(3, [](int) { throw Error(ErrorKind::config, "the file\nis empty", "write one"); })) {
    CHECK(outcome.kind == ErrorKind::config);
    CHECK(outcome.text == "the file\nis empty\n  fix: write one");
  }
}

TEST_CASE("an exception that is no Error does not leave the other ranks waiting", "[cluster]") {
  const auto memory = outcomes(2, [](int rank) {
    if (rank == 1) throw std::bad_alloc();
  });
  CHECK(memory[0].kind == ErrorKind::environment);
  CHECK_THAT(memory[0].text, test::contains("rank 1 of 2") && test::contains("no memory left"));
  const auto other = outcomes(2, [](int rank) {
    if (rank == 0) throw std::out_of_range("index 9");
  });
  CHECK(other[1].kind == ErrorKind::internal);
  CHECK_THAT(other[1].text, test::contains("rank 0 of 2") && test::contains("index 9"));
}
