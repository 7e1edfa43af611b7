#include "cli/run_binary.hpp"
#include "support/catch.hpp"

using namespace mrb::test;

TEST_CASE("a manifest with errors is exit code 2, one with warnings only when asked to be strict", "[cli]") {
  const std::string fixtures = std::string(MRB_SOURCE_DIR) + "/tests/manifest/fixtures/";
  const Finished good = run_binary("manifest check " + fixtures + "good.yaml --strict");
  CHECK(good.exit_code == 0);
  CHECK_THAT(good.out, contains("1 MPIJob: 0 errors, 0 warnings, 0 notes"));

  const Finished bad = run_binary("manifest check - --format json < " + fixtures + "public_nccl_tests.yaml | cat");
  CHECK_THAT(bad.out, contains("\"rule\": \"shell-variable\"") && contains("\"line\": 21"));
  CHECK(run_binary("manifest check " + fixtures + "public_nccl_tests.yaml").exit_code == 2);

  const std::string warned = fixtures + "public_script.yaml";
  CHECK(run_binary("manifest check " + warned).exit_code == 0);
  CHECK(run_binary("manifest check --strict " + warned).exit_code == 2);
  CHECK(run_binary("manifest check no-such-file.yaml").exit_code == 2);
}
