#include "planner/csv.hpp"

#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("a quoted field keeps its commas and a doubled quote is one", "[planner]") {
  const TemporaryFile file("id,notes\na-1,\"TP8, \"\"PP2\"\"\"\n");
  const auto rows = read_csv(file.path());
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].at("notes") == "TP8, \"PP2\"");
}

TEST_CASE("a line with another number of fields is named with its number", "[planner]") {
  const TemporaryFile file("id,notes\na-1,x\na-2\n");
  CHECK_THROWS_WITH(read_csv(file.path()), contains(":3: 1 fields") && contains("fix: quote fields"));
}

TEST_CASE("a table that is not there is one clear error", "[planner]") {
  CHECK_THROWS_WITH(read_csv("no/such.csv"), contains("'no/such.csv'") && contains("fix:"));
}
