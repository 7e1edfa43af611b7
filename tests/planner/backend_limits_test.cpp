#include "planner/backend_limits.hpp"

#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

TEST_CASE("limits of published kernels are known by their names", "[planner]") {
  const ModelShape deepseek = find_model_preset("deepseek-v3").value();  // 256 experts
  const Instance p5{.gpus_per_node = 8}, gb200{.gpus_per_node = 4};
  CHECK(why_not("nccl-alltoall", deepseek, p5, 128).empty());
  CHECK(why_not("nccl-alltoall", deepseek, p5, 24) == "the experts do not divide over the expert ranks");
  CHECK(why_not("deepep-v1-nvshmem", deepseek, p5, 128).empty());
  CHECK_THAT(why_not("deepep-v1-nvshmem", deepseek, p5, 256), contains("no kernel"));
  CHECK_THAT(why_not("deepep-v1-nvshmem", deepseek, gb200, 16), contains("8 GPUs a node"));
  CHECK(why_not("uccl-ep", deepseek, p5, 64).empty());
  CHECK_THAT(why_not("uccl-ep", deepseek, p5, 128), contains("above 64"));
}
