#include "config/list_syntax.hpp"

#include "support/catch.hpp"

using namespace mrb;

namespace {

using Values = std::vector<std::string>;

Values values(const std::string& text) {
  const SplitList list = split_list(text);
  CHECK(list.problem.empty());
  return list.values;
}

}  // namespace

TEST_CASE("commas separate values, with or without blanks", "[config]") {
  CHECK(values("1,2,4") == Values{"1", "2", "4"});
  CHECK(values("0.1, 0.2") == Values{"0.1", "0.2"});
  CHECK(values("alltoall,rank_dedup") == Values{"alltoall", "rank_dedup"});
}

TEST_CASE("a range multiplies or adds", "[config]") {
  CHECK(values("1-8*2") == Values{"1", "2", "4", "8"});
  CHECK(values("3-100*3") == Values{"3", "9", "27", "81"});
  CHECK(values("8-32+8") == Values{"8", "16", "24", "32"});
  CHECK(values("0-5+2") == Values{"0", "2", "4"});
  CHECK(values("7-7*2") == Values{"7"});
  CHECK(values("3, 5-9+2") == Values{"3", "5", "7", "9"});
}

TEST_CASE("what only looks like a range is one value", "[config]") {
  for (const char* text : {"", "5", "1-8", "qwen3-30b-a3b", "1e-3", "-1-8*2", "1-8*x", "1-8*2+3", "1234567890-2*2"}) {
    CHECK(values(text) == Values{text});
  }
}

TEST_CASE("a range that goes nowhere is a problem", "[config]") {
  for (const char* text : {"8-1*2", "0-8*2", "1-8*1", "1-8+0", "8-1+1"}) {
    const SplitList list = split_list(text);
    CHECK(list.problem == "the range '" + std::string(text) + "' goes nowhere");
    CHECK(list.fix == "write ranges like 1-8*2 (1 2 4 8) or 8-64+8 (8 16 ... 64)");
  }
}

TEST_CASE("a list is at most a thousand values long, and one that is longer is counted", "[config]") {
  CHECK(values("1-1000+1").size() == 1000);
  const SplitList longer = split_list("1-1000+1,7");
  CHECK(longer.problem == "there are 1001 values");
  CHECK(longer.fix == "give at most 1000");
  CHECK(split_list("1-999999999+1,1-999999999+1").problem == "there are 1999999998 values");
}
