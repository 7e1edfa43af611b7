#include "stats/steady.hpp"

#include <vector>

#include "support/catch.hpp"

using namespace mrb;

TEST_CASE("slow first steps are left out", "[stats]") {
  CHECK(steady_from(std::vector<double>{40, 20, 10.1, 10.0, 10.2, 9.9, 10.0, 10.1, 10.2, 10.0}) == 2);
}

TEST_CASE("a steady series keeps all of its samples", "[stats]") {
  CHECK(steady_from(std::vector<double>{10, 10.1, 9.9, 10, 10.1, 9.9, 10, 10.1}) == 0);
  CHECK(steady_from(std::vector<double>{7, 7, 7, 7, 7}) == 0);
}

TEST_CASE("a series that still changes at its end is not steady", "[stats]") {
  CHECK_FALSE(steady_from(std::vector<double>{10, 10, 10, 10, 10, 10, 30, 30}));
  CHECK_FALSE(steady_from(std::vector<double>{1, 2, 3}));
}
