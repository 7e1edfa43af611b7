#include "cli/run_binary.hpp"
#include "doctor/node_type.hpp"
#include "manifest/node_offer.hpp"
#include "support/catch.hpp"

using namespace mrb::test;

TEST_CASE("a manifest with errors is exit code 2, one with warnings only when asked to be strict", "[cli]") {
  const std::string fixtures = std::string(MRB_SOURCE_DIR) + "/tests/manifest/fixtures/";
  const Finished good = run_binary("manifest check " + fixtures + "good.yaml --strict");
  CHECK(good.exit_code == 0);
  CHECK_THAT(good.out, contains("1 MPIJob: 0 errors, 0 warnings, 0 notes"));

  const Finished bad = run_binary("manifest check --format json " + fixtures + "public_nccl_tests.yaml");
  CHECK_THAT(bad.out, contains("\"rule\": \"shell-variable\"") && contains("\"line\": 22"));
  CHECK(bad.exit_code == 2);

  const std::string warned = fixtures + "public_script.yaml";
  CHECK(run_binary("manifest check " + warned).exit_code == 0);
  CHECK(run_binary("manifest check --strict " + warned).exit_code == 2);
  CHECK(run_binary("manifest check no-such-file.yaml").exit_code == 2);
}

TEST_CASE("the rendered job holds the configuration with the number of its ranks", "[cli]") {
  const std::string job = "manifest render --instance p5en.48xlarge --nodes 2 --image r/moe-rl-bench:1 ";
  const Finished two = run_binary(job + "--set model.experts=64 --set schedule.name=disaggregated --limit 30m");
  CHECK(two.exit_code == 0);
  CHECK_THAT(two.out, contains("    ranks: 16\n") && contains("      name: disaggregated\n") &&
                          contains("activeDeadlineSeconds: 2700"));
  const Finished three = run_binary("manifest render --instance p5en.48xlarge --nodes 3 --image r/moe-rl-bench:1");
  CHECK(three.exit_code == 2);
  CHECK_THAT(three.err, contains("8 experts do not divide over 24 ranks"));
  CHECK(run_binary(job + "--limit soon").exit_code == 2);
}

TEST_CASE("what doctor expects of a node is what manifests ask of it", "[cli]") {
  int compared = 0;
  for (const mrb::NodeType& type : mrb::node_types()) {
    const mrb::NodeOffer* offer = mrb::find_node_offer(std::string(type.name));
    if (offer == nullptr) continue;
    INFO(offer->name);
    CHECK(offer->gpus == type.gpus);
    CHECK(offer->efa_devices == type.efa_devices);
    ++compared;
  }
  CHECK(compared >= 5);
}
