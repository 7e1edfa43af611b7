#include "base/registry.hpp"

#include "support/catch.hpp"

namespace {

using Factory = int (*)();

constexpr mrb::RegistryEntry<Factory> kEntries[] = {
    {"plain", [] { return 1; }, ""}, {"fast", [] { return 2; }, ""}, {"far", nullptr, "LIBFABRIC"}};

int make(std::string_view name) {
  return mrb::find_factory<Factory>("transport", name, kEntries)();
}

}  // namespace

TEST_CASE("a name finds its implementation", "[base]") {
  CHECK(make("plain") == 1);
  CHECK(make("fast") == 2);
}

TEST_CASE("a name that was left out of the build says which option brings it back", "[base]") {
  CHECK_THROWS_WITH(make("far"), mrb::test::contains("'far' was left out of this build") &&
                                     mrb::test::contains("fix: configure with -DMRB_WITH_LIBFABRIC=ON"));
}

TEST_CASE("an unknown name lists what this build has, and no more", "[base]") {
  CHECK_THROWS_WITH(make("fsat"), mrb::test::contains("no transport called 'fsat'") &&
                                      mrb::test::contains("fix: use one of: plain, fast") &&
                                      !mrb::test::contains("far"));
}

TEST_CASE("the lines of a registry keep the names that are missing", "[base]") {
  const auto lines = mrb::registry_lines<Factory>(kEntries);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].needs.empty());
  CHECK(lines[2].needs == "LIBFABRIC");
}
