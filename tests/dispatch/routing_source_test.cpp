#include "dispatch/routing_source.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

constexpr int kExperts = 16, kTopK = 4;

RoutingShape shape() {
  return {.expert_count = kExperts, .rank_count = 2, .top_k = kTopK, .seed = 7};
}

RankRouting draw(const std::string& text, std::int64_t tokens = 4000, std::uint64_t iteration = 0, int rank = 0) {
  return make_routing_source(text, shape())->draw(iteration, rank, tokens);
}

std::set<std::int32_t> experts_of(const RankRouting& routing, std::size_t token) {
  const auto first = routing.expert_ids.begin() + static_cast<std::ptrdiff_t>(token * kTopK);
  return {first, first + kTopK};
}

std::vector<std::int64_t> counts_of(const RankRouting& routing) {
  std::vector<std::int64_t> counts(kExperts);
  for (const std::int32_t expert : routing.expert_ids) ++counts[static_cast<std::size_t>(expert)];
  return counts;
}

std::string message_of(const std::string& text) {
  try {
    make_routing_source(text, shape());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the experts of one token differ, whatever the law", "[dispatch]") {
  for (const std::string text : {"uniform", "zipf:0", "zipf:1.2", "zipf:8", "group_limited:4:2", "hot"}) {
    const RankRouting routing = draw(text, 500);
    REQUIRE(routing.expert_ids.size() == 500 * kTopK);
    INFO(text);
    bool all_differ = true, all_exist = true;
    for (std::size_t token = 0; token < 500; ++token) {
      const auto experts = experts_of(routing, token);
      all_differ = all_differ && experts.size() == kTopK;
      all_exist = all_exist && *experts.begin() >= 0 && *experts.rbegin() < kExperts;
    }
    CHECK(all_differ);
    CHECK(all_exist);
  }
}

TEST_CASE("routing is a function of iteration and rank alone", "[dispatch]") {
  CHECK(draw("zipf:1", 50, 3, 1).expert_ids == draw("zipf:1", 50, 3, 1).expert_ids);
  CHECK(draw("zipf:1", 50, 3, 1).expert_ids != draw("zipf:1", 50, 4, 1).expert_ids);
  CHECK(draw("zipf:1", 50, 3, 1).expert_ids != draw("zipf:1", 50, 3, 0).expert_ids);
}

// 4000 tokens with 4 of 16 experts: each expert gets 1000 on the mean, with a standard deviation of
// sqrt(4000 x 1/4 x 3/4) = 27.
TEST_CASE("uniform routing favours no expert", "[dispatch]") {
  for (const std::int64_t count : counts_of(draw("uniform"))) CHECK(std::abs(count - 1000) < 6 * 27);
  for (const std::int64_t count : counts_of(draw("zipf:0"))) CHECK(std::abs(count - 1000) < 6 * 27);
}

// With top 1 the first draw is all there is: the most popular expert gets 1 / H(16, 1) = 1 / 3.3807 of the tokens, and
// the second half of that.
TEST_CASE("popularity falls as Zipf says", "[dispatch]") {
  RoutingShape one = shape();
  one.top_k = 1;
  auto counts = counts_of(make_routing_source("zipf:1", one)->draw(0, 0, 40000));
  std::sort(counts.rbegin(), counts.rend());
  CHECK(std::abs(static_cast<double>(counts[0]) / 40000 - 1 / 3.3807) < 0.015);
  CHECK(std::abs(static_cast<double>(counts[1]) / 40000 - 0.5 / 3.3807) < 0.012);
  CHECK(std::abs(static_cast<double>(counts[15]) / 40000 - 1 / 16.0 / 3.3807) < 0.006);
}

TEST_CASE("a token's experts are in no more groups than it may visit", "[dispatch]") {
  const RankRouting routing = draw("group_limited:4:2");
  std::size_t groups_max = 0;
  for (std::size_t token = 0; token < 4000; ++token) {
    std::set<int> groups;
    for (const std::int32_t expert : experts_of(routing, token)) groups.insert(expert / 4);
    groups_max = std::max(groups_max, groups.size());
  }
  CHECK(groups_max == 2);
  for (const std::int64_t count : counts_of(routing)) CHECK(std::abs(count - 1000) < 6 * 40);
}

TEST_CASE("the hot expert is among those of every token, in any place", "[dispatch]") {
  const RankRouting routing = draw("hot");
  const auto counts = counts_of(routing);
  const auto hot = static_cast<std::int32_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  CHECK(counts[static_cast<std::size_t>(hot)] == 4000);
  CHECK(counts_of(draw("hot", 4000, 1, 1))[static_cast<std::size_t>(hot)] == 4000);
  std::map<std::size_t, int> places;
  for (std::size_t copy = 0; copy < routing.expert_ids.size(); ++copy) {
    if (routing.expert_ids[copy] == hot) ++places[copy % kTopK];
  }
  for (std::size_t k = 0; k < kTopK; ++k) CHECK(std::abs(places[k] - 1000) < 6 * 27);
}

TEST_CASE("a trace is taken in turn by iteration and rank, and begins again", "[dispatch]") {
  const TemporaryFile file("# layer 3\n0 1 2 3\n4 5 6 7\n-1 -1 8 9\n");
  const auto source = make_routing_source("trace:" + file.path(), shape());
  CHECK(source->draw(0, 0, 2).expert_ids == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(source->draw(0, 1, 2).expert_ids == std::vector<std::int32_t>{-1, -1, 8, 9, 0, 1, 2, 3});
  CHECK(source->draw(1, 0, 1).expert_ids == std::vector<std::int32_t>{-1, -1, 8, 9});
}

TEST_CASE("routing that does not fit is refused with the values and a way to write it", "[dispatch]") {
  CHECK_THAT(message_of("random"), contains("'random' is not understood") && contains("zipf:1.2"));
  CHECK_THAT(message_of("zipf:"), contains("not understood"));
  CHECK_THAT(message_of("zipf:1:2"), contains("not understood"));
  CHECK_THAT(message_of("zipf:nan"), contains("not understood"));
  CHECK_THAT(message_of("zipf:-1"), contains("not in 0 to 10"));
  CHECK_THAT(message_of("group_limited:3:1"), contains("16 experts do not divide"));
  CHECK_THAT(message_of("group_limited:8:1"), contains("2 experts to choose from, and top_k is 4"));
  CHECK_THAT(message_of("group_limited:4:5"), contains("use 1 to 4 groups"));
  CHECK_THAT(message_of("trace:nowhere"), contains("cannot be read"));
  const TemporaryFile twice("0 1 2 3\n1 1 2 3\n"), few("0 1\n"), high("0 1 2 16\n"), word("0 1 2 x\n"), none("#\n");
  CHECK_THAT(message_of("trace:" + twice.path()), contains(":2: expert 1 is there twice"));
  CHECK_THAT(message_of("trace:" + few.path()), contains(":1: there are 2 expert ids, and top_k is 4"));
  CHECK_THAT(message_of("trace:" + high.path()), contains("no expert 16 among 16"));
  CHECK_THAT(message_of("trace:" + word.path()), contains("'x' is no expert id"));
  CHECK_THAT(message_of("trace:" + none.path()), contains("holds no token"));
}
