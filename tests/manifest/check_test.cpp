#include "manifest/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "manifest/node_offer.hpp"
#include "manifest/quantity.hpp"
#include "support/catch.hpp"

using namespace mrb;
using namespace mrb::test;

namespace {

std::string fixture(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(std::string(MRB_SOURCE_DIR) + "/tests/manifest/fixtures/" + name).rdbuf();
  return text.str();
}

// The good manifest with the first `before` replaced; what stands in lines is one text with line ends.
std::string broken(const std::string& before, const std::string& after) {
  std::string text = fixture("good.yaml");
  const std::size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  return text.replace(at, before.size(), after);
}

std::set<std::string> rules_of(const ManifestCheck& check) {
  std::set<std::string> rules;
  for (const ManifestFinding& finding : check.findings) rules.insert(finding.rule);
  return rules;
}

struct Broken {
  const char* before;
  const char* after;
  const char* rule;  // the only one that is found
  const char* path;  // where
};

const Broken kBroken[] = {
    // What the API server refuses.
    {"slotsPerWorker: 8", "slotsPerWorkers: 8\n  slotsPerWorker: 8", "unknown-field", "spec.slotsPerWorkers"},
    {"replicas: 2", "replicas: \"2\"", "type", "spec.mpiReplicaSpecs.Worker.replicas"},
    {"value: /opt/amazon/efa/lib", "value: 8", "type",
     "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[0].value"},
    {"value: /opt/amazon/efa/lib", "value: yes", "type",
     "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[0].value"},
    {"- \"16\"", "- 16", "type", "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[3]"},
    {"mpiImplementation: OpenMPI", "mpiImplementation: openmpi", "enum", "spec.mpiImplementation"},
    {"memory: 1024Gi", "memory: 1024GiB", "quantity",
     "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.requests.memory"},
    {"  slotsPerWorker: 8", "  slotsPerWorker: 8\n  slotsPerWorker: 8", "duplicate-key", "spec.slotsPerWorker"},
    {"queue-name: gpus", "queue-name: 7", "type", "metadata.labels[kueue.x-k8s.io/queue-name]"},
    {"  namespace: bench", "  namspace: bench", "unknown-field", "metadata.namspace"},
    {"kind: MPIJob", "kind: MpiJob", "kind", "kind"},
    {"v2beta1", "v1", "api-version", "apiVersion"},
    // What the operator refuses without a word.
    {"cleanPodPolicy: Running", "cleanPodPolicy: running", "clean-pod-policy", "spec.runPolicy.cleanPodPolicy"},
    {"    Worker:", "    worker:", "replica-name", "spec.mpiReplicaSpecs.worker"},
    {"restartPolicy: Never", "restartPolicy: Always", "restart-policy", "spec.mpiReplicaSpecs.Launcher.restartPolicy"},
    {"replicas: 1", "replicas: 2", "launcher-replicas", "spec.mpiReplicaSpecs.Launcher.replicas"},
    {"name: moe-bench-1", "name: moe-bench-for-the-quarterly-review-of-all-the-clusters-we-have", "name",
     "metadata.name"},
    {"name: moe-bench-1", "name: 1-moe-bench", "name", "metadata.name"},
    {"name: moe-bench-1", "name: moe.bench", "name", "metadata.name"},
    {"backoffLimit: 0", "backoffLimit: -1", "negative", "spec.runPolicy.backoffLimit"},
    {"backoffLimit: 0", "backoffLimit: 0\n    managedBy: me", "managed-by", "spec.runPolicy.managedBy"},
    // What both accept.
    {"WaitForWorkersReady", "WaitForWorkerReady", "launcher-policy", "spec.launcherCreationPolicy"},
    {"    cleanPodPolicy: Running\n", "", "clean-pod-policy", "spec.runPolicy.cleanPodPolicy"},
    {"    backoffLimit: 0\n", "", "retries", "spec.runPolicy.backoffLimit"},
    {"    activeDeadlineSeconds: 3600\n", "", "deadline", "spec.runPolicy.activeDeadlineSeconds"},
    {"- \"16\"", "- \"17\"", "ranks", "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[0]"},
    {"- \"16\"", "- \"8\"", "ranks", "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[0]"},
    {"            - -N\n            - \"8\"", "            - --map-by\n            - ppr:16:node", "ranks-per-node",
     "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[0]"},
    {"            - --allow-run-as-root\n", "", "run-as-root",
     "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[0]"},
    {"value: /opt/amazon/efa/lib", "value: /opt/amazon/efa/lib:$LD_LIBRARY_PATH", "shell-variable",
     "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[0].value"},
    {"value: /opt/amazon/efa/lib", "value: $(HOME)/lib", "unknown-reference",
     "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[0].value"},
    {"            - -x\n            - LD_LIBRARY_PATH\n", "", "not-exported",
     "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[0]"},
    {"FI_PROVIDER=efa", "FI_PROVIDER=tcp", "suspicious-env",
     "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].command[0]"},
    {"          - name: launcher\n",
     "          - name: logger\n            image: registry.example/logger:1\n          - name: launcher\n",
     "sidecar-first", "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0]"},
    {"hugepages-2Mi: 5120Mi", "hugepages-2Mi: 2560Mi", "request-limit",
     "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.requests.hugepages-2Mi"},
    {"vpc.amazonaws.com/efa: 32", "vpc.amazonaws.com/efa: 16", "request-limit",
     "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.requests[vpc.amazonaws.com/efa]"},
    {"cpu: \"184\"", "cpu: \"96\"", "guaranteed", "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources"},
    {"instance-type: p5.48xlarge", "instance-type: p5en.48xlarge", "node-size",
     "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources.limits[vpc.amazonaws.com/efa]"},
    {"slotsPerWorker: 8", "slotsPerWorker: 8\n  runLauncherAsWorker: true", "launcher-resources", ""},
    {"add: [IPC_LOCK]", "add: [SYS_PTRACE]", "ipc-lock",
     "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].securityContext.capabilities.add"},
    {"mountPath: /dev/shm", "mountPath: /scratch", "no-shm",
     "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].volumeMounts"},
    {"            - name: shm\n", "            - name: sham\n", "volume", ""},
    {"sizeLimit: 256Gi", "sizeLimit: 2048Gi", "shm-size",
     "spec.mpiReplicaSpecs.Worker.template.spec.volumes[0].emptyDir.sizeLimit"},
    {"          volumes:\n",
     "          volumes:\n          - name: ib\n            hostPath: {path: /dev/infiniband}\n", "host-infiniband",
     "spec.mpiReplicaSpecs.Worker.template.spec.volumes[0].hostPath.path"},
    {"moe-rl-bench:0.1.0", "moe-rl-bench:latest", "image-tag",
     "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].image"},
    {"topologyKey: topology.kubernetes.io/zone", "topologyKey: ${ZONE_KEY}\n                namespaces: ${SPACES}",
     "placeholder", ""},
};

}  // namespace

TEST_CASE("nothing is found in a good manifest", "[manifest]") {
  const ManifestCheck check = check_manifest("good.yaml", fixture("good.yaml"));
  INFO(check_text(check));
  CHECK(check.findings.empty());
  CHECK(check.jobs == 1);
}

TEST_CASE("each fault is named with its place, why it matters and what to write, and nothing else is", "[manifest]") {
  for (const Broken& one : kBroken) {
    const ManifestCheck check = check_manifest("job.yaml", broken(one.before, one.after));
    INFO("instead of '" << one.before << "': '" << one.after << "'\n" << check_text(check));
    std::set<std::string> rules = rules_of(check);
    // Without workers that are spelt so, and with a launcher that needs more, other things are true as well.
    if (std::string(one.rule) == "launcher-resources") rules.erase("ranks"), rules.erase("no-shm");
    if (std::string(one.rule) == "volume") rules.erase("no-shm");
    if (std::string(one.rule) == "replica-name") rules.erase("ranks");
    CHECK(rules == std::set<std::string>{one.rule});
    for (const ManifestFinding& finding : check.findings) {
      CHECK(!finding.words.problem.empty());
      CHECK(!finding.words.why.empty());
      CHECK(!finding.words.fix.empty());
      CHECK(finding.line > 0);
      if (finding.rule == one.rule && *one.path != '\0') CHECK(finding.path == one.path);
    }
  }
}

TEST_CASE("in published shapes of MPIJobs what is wrong is found, and nothing else", "[manifest]") {
  const std::map<std::string, std::set<std::string>> expected = {
      {"public_nccl_tests.yaml",
       {"retries", "deadline", "pod-restart-policy", "shell-variable", "suspicious-env", "guaranteed", "ipc-lock",
        "host-shm", "zone"}},
      {"public_script.yaml", {"deadline", "endless-wait", "shm-size", "guaranteed", "huge-pages"}},
      {"public_pi.yaml", {"null"}}};
  for (const auto& [name, rules] : expected) {
    const ManifestCheck check = check_manifest(name, fixture(name));
    INFO(check_text(check));
    CHECK(rules_of(check) == rules);
    CHECK(check.jobs == 1);
  }
}

TEST_CASE("what is no MPIJob, no YAML, or not filled in is one error", "[manifest]") {
  CHECK(rules_of(check_manifest("a", "kind: Pod\n")) == std::set<std::string>{"no-job"});
  CHECK(rules_of(check_manifest("a", "")) == std::set<std::string>{"no-job"});
  CHECK(rules_of(check_manifest("a", "kind: [MPIJob\n")) == std::set<std::string>{"yaml"});
  CHECK(rules_of(check_manifest("a", "kind: MPIJob\nspec: {slotsPerWorker: {{.Slots}}}\n")) ==
        std::set<std::string>{"placeholder"});
}

TEST_CASE("a manifest that repeats itself without end, or is nested without end, is refused at once", "[manifest]") {
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i) bomb += fmt::format("a{}: &a{} [*a{}, *a{}]\n", i, i, i - 1, i - 1);
  CHECK(rules_of(check_manifest("a", bomb)) == std::set<std::string>{"yaml"});
  CHECK(rules_of(check_manifest("a", std::string(100'000, '['))) == std::set<std::string>{"yaml"});
}

TEST_CASE("an odd manifest of any shape is explained and not fallen over", "[manifest]") {
  for (const char* text : {"kind: MPIJob", "kind: MPIJob\nspec: 3", "kind: MPIJob\nspec: {mpiReplicaSpecs: []}",
                           "kind: MPIJob\nspec: {mpiReplicaSpecs: {Launcher: , Worker: 7}}",
                           "kind: MPIJob\nmetadata: [a]\nspec: {mpiReplicaSpecs: {Launcher: {template: {spec: "
                           "{containers: [3, {command: mpirun}, {command: [sh, -c, 'mpirun -np']}]}}}}}"}) {
    const ManifestCheck check = check_manifest("a", text);
    INFO(text);
    CHECK(check.count(ManifestSeverity::error) > 0);
    CHECK(check_json(check).find("\"rule\"") != std::string::npos);
  }
}

TEST_CASE("quantities are those of Kubernetes", "[manifest]") {
  CHECK(parse_quantity("500m") == 0.5);
  CHECK(parse_quantity("5120Mi") == 5120.0 * 1024 * 1024);
  CHECK(parse_quantity("1E") == 1e18);
  CHECK(parse_quantity("1E3") == 1000.0);
  CHECK(!parse_quantity("1GiB"));
  CHECK(!parse_quantity(""));
  CHECK(!parse_quantity("inf"));
}

TEST_CASE("a node leaves to pods what EKS and Karpenter say it does", "[manifest]") {
  CHECK(find_node_offer("p5.48xlarge")->allocatable_cpus() == Approx(191.45));
  CHECK(find_node_offer("p5.48xlarge")->efa_devices == 32);
  CHECK(find_node_offer("c6in.32xlarge")->gpus == 0);
  CHECK(NodeOffer{.vcpus = 16}.allocatable_cpus() == Approx(15.89));
  CHECK(find_node_offer("p9") == nullptr);
}
