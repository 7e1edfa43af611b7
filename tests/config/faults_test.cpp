#include "config/faults.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace mrb;
using mrb::test::contains;

namespace {

std::string reported(const Faults& faults) {
  try {
    faults.report();
  } catch (const Error& error) {
    CHECK(error.exit_code() == 2);
    return error.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("one fault is an error like any other, several are counted", "[config]") {
  Faults faults;
  CHECK(reported(faults) == "nothing");
  faults.add("a.yaml:1:1", "this is wrong", "do that");
  CHECK(reported(faults) == "a.yaml:1:1: this is wrong\n  fix: do that");
  faults.add("MRB_SEED", "this too", "do this");
  faults.add("MRB_SEED", "this too", "do this");
  CHECK(reported(faults) ==
        "2 faults in the configuration\n"
        "a.yaml:1:1: this is wrong\n  fix: do that\n"
        "MRB_SEED: this too\n  fix: do this");
}

TEST_CASE("fifty faults are shown, and how many more there are", "[config]") {
  Faults faults;
  for (int i = 1; i <= 53; ++i) faults.add("line " + std::to_string(i), "wrong", "mend it");
  CHECK_THAT(reported(faults), contains("53 faults") && contains("line 50:") && !contains("line 51:"));
  CHECK_THAT(reported(faults), contains("\n... and 3 more"));
}

TEST_CASE("the thousandth fault ends the search for more", "[config]") {
  Faults faults;
  for (int i = 1; i < 1000; ++i) faults.add("line " + std::to_string(i), "wrong", "mend it");
  CHECK_THROWS_WITH(faults.add("line 1000", "wrong", "mend it"), contains("1000 or more faults"));
}

TEST_CASE("text is shown without what would disturb a terminal", "[config]") {
  CHECK(shown("plain") == "plain");
  CHECK(shown("a\nb\x1b[1m\x7f") == "a?b?[1m?");
  CHECK(shown("gr\xc3\xbc\xc3\x9f") == "gr\xc3\xbc\xc3\x9f");
  CHECK(shown("\xff\xc3") == "??");
  CHECK(shown(std::string(61, 'x')) == std::string(60, 'x') + "...");
  CHECK(shown(std::string(59, 'x') + "\xc3\xbc") == std::string(59, 'x') + "...");  // never half a character
}

TEST_CASE("printable text is UTF-8 without control characters", "[config]") {
  for (const char* text : {"", "results/one", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    CHECK(is_printable(text));
  for (const char* text :
       {"\n", "\x7f", "\xc2\x85", "\xff", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    CHECK_FALSE(is_printable(text));
  }
}
