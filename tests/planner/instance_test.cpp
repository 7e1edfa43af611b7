#include "planner/instance.hpp"

#include "base/error.hpp"
#include "doctor/node_type.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("every instance file of the project can be read and names where its price is from", "[planner]") {
  const auto instances = read_instances(std::string(MRB_SOURCE_DIR) + "/configs/instances");
  CHECK(instances.size() == 9);
  const Instance& p5en = find_instance(instances, "p5en.48xlarge");
  CHECK(p5en.gpus_per_node == 8);
  CHECK(p5en.hbm_gbyte == 141);
  CHECK(p5en.efa_gbyte_per_s == 50);
  CHECK(p5en.usd_per_hour == 63.296);
  for (const Instance& instance : instances) {
    INFO(instance.name);
    CHECK((instance.usd_per_hour > 0) == !instance.price_source.empty());
  }
}

TEST_CASE("doctor expects the GPUs and the EFA rate that instance files have", "[planner]") {
  for (const Instance& instance : read_instances(std::string(MRB_SOURCE_DIR) + "/configs/instances")) {
    INFO(instance.name);
    const NodeType* type = find_node_type(instance.name);
    REQUIRE(type != nullptr);
    CHECK(type->gpus == instance.gpus_per_node);
    CHECK(instance.gpu.find(type->gpu) != std::string::npos);
    constexpr double kGbitPerGbyte = 8;
    CHECK(type->efa_devices * type->gbit_per_device == instance.efa_gbyte_per_s * kGbitPerGbyte * type->gpus);
  }
}

TEST_CASE("all faults of an instance file come together", "[planner]") {
  const TemporaryFile file("name: x\ngpu: y\ngpus_per_node: 0\nhbm_gbyte: many\nspeed: 3\n");
  CHECK_THROWS_WITH(read_instance(file.path()), contains("gpus_per_node is '0'") && contains("hbm_gbyte is 'many'") &&
                                                    contains("no 'speed'") && contains("latency_us is missing"));
}

TEST_CASE("an unknown instance type lists those there are", "[planner]") {
  const auto instances = read_instances(std::string(MRB_SOURCE_DIR) + "/configs/instances");
  CHECK_THROWS_WITH(find_instance(instances, "p9"), contains("'p9'") && contains("p5.48xlarge"));
}
