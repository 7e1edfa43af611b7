#include "tune/budget.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::contains;

TEST_CASE("a budget is a time, launches, or GPU hours of all ranks", "[tune]") {
  CHECK(parse_budget({"90s"}, 4).elapsed_s == 90);
  CHECK(parse_budget({"30m"}, 4).elapsed_s == 1800);
  CHECK(parse_budget({"1.5h"}, 4).elapsed_s == 5400);
  CHECK(parse_budget({"50 gpu-h"}, 100).elapsed_s == 1800);  // 50 h / 100 ranks
  CHECK(parse_budget({"200 launches"}, 4).launches == 200);
  CHECK(parse_budget({}, 4).launches == 0);
}

TEST_CASE("of several limits the tighter one of each kind holds", "[tune]") {
  const TuneBudget budget = parse_budget({"30m", "200 launches", "1 gpu-h", "20launches"}, 4);
  CHECK(budget.elapsed_s == 900);
  CHECK(budget.launches == 20);
}

TEST_CASE("what is no budget is refused, all of it at once", "[tune]") {
  CHECK_THROWS_WITH(parse_budget({"soon", "-3m", "0 launches", "1.5 launches", "nan h", "1e99h"}, 4),
                    contains("'soon'") && contains("'-3m'") && contains("'0 launches'") && contains("'1.5 launches'") &&
                        contains("'nan h'") && contains("'1e99h'") && contains("fix: ") && contains("'50 gpu-h'"));
}
