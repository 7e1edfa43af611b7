#include "report/markup.hpp"

#include "support/catch.hpp"

using namespace mrb;

TEST_CASE("text never becomes markup", "[report]") {
  CHECK(xml_text("<b a=\"1\">&'\x01") == "&lt;b a=&quot;1&quot;&gt;&amp;&#39;?");
  CHECK(markdown_cell("a|b\n<i>*c*") == "a\\|b &lt;i>\\*c\\*");
  CHECK(workflow_text("5%\n::error::x") == "5%25%0A::error::x");
}

TEST_CASE("a field of CSV is quoted where it must be, and never a formula", "[report]") {
  CHECK(csv_field("plain") == "plain");
  CHECK(csv_field("a,\"b\"") == "\"a,\"\"b\"\"\"");
  CHECK(csv_field("=1+1") == "'=1+1");
}
