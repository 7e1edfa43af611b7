#include "doctor/node_tree.hpp"
#include "run_binary.hpp"
#include "support/catch.hpp"

using namespace mrb::test;

TEST_CASE("doctor says of a folder of files whether that node is fit, and its exit code says it too", "[cli]") {
  NodeTree tree("p5.48xlarge");
  const Finished healthy = run_binary("doctor --root " + tree.root());
  INFO(healthy.out << healthy.err);
  CHECK(healthy.exit_code == 0);
  CHECK_THAT(healthy.out, contains("\nfit ("));

  tree.apply("-/dev/gdrdrv\n");
  const Finished warned = run_binary("doctor --root " + tree.root());
  CHECK(warned.exit_code == 0);
  CHECK_THAT(warned.out, contains("warn    gdrcopy: there is no /dev/gdrdrv in this pod"));
  CHECK_THAT(warned.out, contains("fit, not comparable"));

  tree.apply("-/dev/infiniband/uverbs00\n");
  const Finished refused = run_binary("doctor --format json --root " + tree.root());
  CHECK(refused.exit_code == 5);
  CHECK_THAT(refused.out, contains("\"verdict\": \"not fit\""));
  CHECK_THAT(refused.out, contains("31 of the node's 32 EFA devices are in this pod"));
}

TEST_CASE("doctor refuses a machine without EFA when EFA is asked for", "[cli]") {
  const NodeTree empty;
  const Finished refused = run_binary("doctor --transport libfabric --transport-provider efa --root " + empty.root());
  CHECK(refused.exit_code == 5);
  CHECK_THAT(refused.out, contains("fix "));
}
