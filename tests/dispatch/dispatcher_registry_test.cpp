#include "cluster/bootstrap.hpp"
#include "dispatch/dispatcher.hpp"
#include "support/catch.hpp"
#include "support/threaded_ranks.hpp"

namespace mrb::test {

namespace {

// What making a dispatcher on `ranks` ranks, and routing two tokens with it, fails with.
std::string error_of(int ranks, const std::string& name, const DispatcherOptions& options,
                     std::vector<std::int32_t> expert_ids = {0, -1}, int top_k = 1) {
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Bootstrap& bootstrap) {
    const auto transport = make_transport("loopback", bootstrap, {});
    Channel channel(*transport, bootstrap, 30);
    try {
      make_dispatcher(name, channel, options)->route({.expert_ids = expert_ids, .top_k = top_k});
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(bootstrap.rank())] = error.what();
    }
    bootstrap.barrier();
  });
  return errors[0];
}

DispatcherOptions options_for(int experts, int ranks) {
  return {.hidden = 2, .placement = {.expert_count = experts, .rank_count = ranks}, .tokens_max = 2};
}

}  // namespace

TEST_CASE("the registry lists the dispatchers", "[dispatch]") {
  std::string names;
  for (const RegistryLine& line : dispatcher_lines()) names += line.name + " ";
  CHECK(names == "reference alltoall rank_dedup allgather two_hop low_latency proxy ");
}

TEST_CASE("an unknown dispatcher is refused with the list of those there are", "[dispatch]") {
  const auto error = error_of(1, "alltoal", options_for(4, 1));
  CHECK_THAT(error, contains("there is no dispatcher called 'alltoal'"));
  CHECK_THAT(error, contains("fix: use one of: reference, alltoall, rank_dedup"));
}

TEST_CASE("experts that do not divide over the ranks are refused", "[dispatch]") {
  const auto error = error_of(3, "alltoall", options_for(8, 3));
  CHECK_THAT(error, contains("8 experts do not divide over 3 ranks"));
  CHECK_THAT(error, contains("fix: use a number of ranks that divides the number of experts"));
}

TEST_CASE("the reference is for one rank", "[dispatch]") {
  const auto error = error_of(2, "reference", options_for(4, 2));
  CHECK_THAT(error, contains("dispatcher 'reference' works on at most 1 rank, and there are 2"));
}

TEST_CASE("routing that cannot be is refused before it corrupts anything", "[dispatch]") {
  const std::string name =
      GENERATE("reference", "alltoall", "rank_dedup", "allgather", "two_hop", "low_latency", "proxy");
  CHECK_THAT(error_of(1, name, options_for(2, 1), {0, 1, 0}, 3), contains("top_k is 3, and there are 2 experts"));
  CHECK_THAT(error_of(1, name, options_for(2, 1), {0, 2}), contains("a token was routed to expert 2, of 2 experts"));
  CHECK_THAT(error_of(1, name, options_for(2, 1), {-2, 0}), contains("a token was routed to expert -2, of 2 experts"));
  CHECK(error_of(1, name, options_for(2, 1), {0, 1}).empty());
}

}  // namespace mrb::test
