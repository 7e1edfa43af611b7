#include "stats/student.hpp"

#include <limits>

#include "support/catch.hpp"

using namespace mrb;
using mrb::test::Approx;

// Made by scipy: tests/reference/statistics.py.
TEST_CASE("Student's distribution agrees with scipy", "[stats]") {
  CHECK(student_quantile(1 - 0.05 / 6, 7) == Approx(3.1275522742463715).epsilon(1e-9));
  CHECK(student_quantile(0.2, 3) == Approx(-0.9784723118282994).epsilon(1e-9));
  CHECK(student_upper_tail(1.5, 4.5) == Approx(0.10010954282807658).epsilon(1e-9));
}

TEST_CASE("the tail of Student's distribution is symmetrical and ends at infinity", "[stats]") {
  CHECK(student_upper_tail(0, 5) == 0.5);
  CHECK(student_upper_tail(-2, 5) == Approx(1 - student_upper_tail(2, 5)));
  CHECK(student_upper_tail(std::numeric_limits<double>::infinity(), 5) == 0);
  CHECK(student_upper_tail(-std::numeric_limits<double>::infinity(), 5) == 1);
}
