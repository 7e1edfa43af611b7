#include "manifest/render.hpp"

#include "manifest/check.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

JobRequest request_for(const std::string& type) {
  return {.name = "bench-7",
          .name_space = "bench",
          .image = "r.example/moe-rl-bench:0.1.0",
          .node_type = type,
          .config_yaml = "ranks: 16\nmodel:\n  name: tiny\n"};
}

void check_is_clean(const JobRequest& request) {
  const std::string text = render_job(request);
  const ManifestCheck check = check_manifest("job.yaml", text);
  INFO(text << check_text(check));
  CHECK(check.findings.empty());
  CHECK(check.jobs == 1);
}

}  // namespace

TEST_CASE("nothing is found in what is rendered, for each type of node and each option", "[manifest]") {
  int types = 0;
  for (const NodeOffer& type : node_offers()) {
    if (type.vcpus == 0) continue;  // p6e-gb200: its processors are not published
    ++types;
    const JobRequest plain = request_for(type.name);
    check_is_clean(plain);
    JobRequest other = plain;
    other.launcher = LauncherRole::works;
    check_is_clean(other);
    other = plain, other.huge_pages = "5120Mi", other.queue = "gpus",
    other.topology = "topology.k8s.aws/network-node-layer-2";
    check_is_clean(other);
    other = plain, other.efa = EfaBy::dra, other.capacity_block = "cr-0123456789abcdef0", other.nodes = 1;
    check_is_clean(other);
    other = plain, other.command = {"doctor", "--network"}, other.config_yaml = "", other.ranks_per_node = 1;
    check_is_clean(other);
  }
  CHECK(types == 16);
}

TEST_CASE("a job takes whole nodes: all GPUs and EFA devices, and as many processors for each rank", "[manifest]") {
  const std::string p5 = render_job(request_for("p5.48xlarge"));
  CHECK_THAT(p5, contains("nvidia.com/gpu: 8") && contains("vpc.amazonaws.com/efa: 32") && contains("cpu: \"184\"") &&
                     contains("- \"16\"") && contains("110.08 USD/h on demand in us-east-1"));
  const std::string c6in = render_job(request_for("c6in.32xlarge"));
  CHECK_THAT(c6in, contains("vpc.amazonaws.com/efa: 2") && contains("- \"4\"") && !contains("nvidia.com"));
}

TEST_CASE("with the launcher as a worker its pod is one of the nodes", "[manifest]") {
  JobRequest request = request_for("p5en.48xlarge");
  request.launcher = LauncherRole::works;
  request.nodes = 4;
  CHECK_THAT(render_job(request),
             contains("runLauncherAsWorker: true") && contains("replicas: 3") && contains("- \"32\""));
}

TEST_CASE("all faults of a request come together, each with its fix", "[manifest]") {
  JobRequest request = request_for("p9.48xlarge");
  request.name = "Bench";
  request.image = "";
  request.nodes = 0;
  request.topology = "zone";
  request.huge_pages = "3Mi";
  CHECK_THROWS_WITH(render_job(request), contains("--instance: is 'p9.48xlarge'") && contains("--name: is 'Bench'") &&
                                             contains("--image: is ''") && contains("--nodes: is 0") &&
                                             contains("--topology: is given without a queue") &&
                                             contains("--hugepages: is '3Mi'") && contains("p5en.48xlarge"));
  request = request_for("p5.48xlarge");
  request.ranks_per_node = 16;
  CHECK_THROWS_WITH(render_job(request), contains("--ranks-per-node: is 16, and a p5.48xlarge has 8 GPUs"));
}
