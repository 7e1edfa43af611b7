// The check that runs before every measurement, on dispatchers that are right and on dispatchers that are
// not.
#include "dispatch/check.hpp"

#include <mutex>

#include "dispatch/faulty_dispatcher.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

namespace mrb::test {

namespace {

// Six of eight experts on two ranks: at least two copies of a token on each, three or more on one, so that
// their order shows in both trees.
constexpr DispatchCheck kCheck{.tokens_per_rank = 40, .top_k = 6, .seed = 3};

// The check's error on each rank; empty where there was none.
std::vector<std::string> errors_of(const std::string& name, Fault fault, const DispatchCheck& check = kCheck) {
  std::vector<std::string> errors(2);
  run_ranks(2, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    Channel channel(*transport, bootstrap, 30);
    const DispatcherOptions options{.hidden = 5,
                                    .placement = {.expert_count = 8, .rank_count = 2, .ranks_per_node = 1},
                                    .top_k = check.top_k,
                                    .tokens_max = check.tokens_per_rank};
    {
      FaultyDispatcher dispatcher(make_dispatcher(name, channel, options), options.hidden, fault);
      try {
        check_dispatcher(dispatcher, bootstrap, options, check);
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(bootstrap.rank())] = error.what();
      }
    }
    bootstrap.barrier();
  });
  return errors;
}

}  // namespace

TEST_CASE("the check passes dispatchers that are right", "[dispatch]") {
  const std::string name = GENERATE("alltoall", "rank_dedup", "allgather", "two_hop", "low_latency", "proxy");
  for (const std::string& error : errors_of(name, Fault::none)) CHECK(error.empty());
}

TEST_CASE("the check finds every planted fault and says on all ranks what differs", "[dispatch]") {
  struct Planted {
    Fault fault;
    const char* where;
  };
  const Planted planted[] = {
      {Fault::experts_in_reverse, "dispatch, rank 0: row "},
      {Fault::row_lost, "element 0 is nan instead of "},
      {Fault::row_values_swapped, "dispatch, rank 0: row 0 (expert 0, from rank 0, token "},
      {Fault::summed_in_other_order, "combine, rank 0: row "},
      {Fault::token_lost, "combine, rank 0: row 39 of the tokens, element 0 is nan instead of "},
      {Fault::copy_values_swapped, "combine, rank 0: the value of token 0, k = 0 is "},
      {Fault::rows_counted_double, "route, rank 0: the number of rows for expert 0 is "},
      {Fault::bit_flipped, "dispatch, rank 0: row 1 ("},
  };
  const std::string name = GENERATE("alltoall", "rank_dedup", "allgather", "two_hop", "low_latency", "proxy");
  for (const auto& [fault, where] : planted) {
    for (const std::string& error : errors_of(name, fault)) {
      CHECK_THAT(error, contains("dispatcher '" + name + "' disagrees with the reference"));
      CHECK_THAT(error, contains(where));
      CHECK_THAT(error, contains("fix: use another dispatcher"));
    }
  }
}

}  // namespace mrb::test
