#include "manifest/render.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <regex>

#include "config/faults.hpp"
#include "manifest/job_view.hpp"
#include "manifest/quantity.hpp"

namespace mrb {

namespace {

constexpr int kNodesMax = 1000, kRanksPerNodeMax = 256, kLimitMax_s = 14 * 24 * 3600;
constexpr int kSlack_s = 900;         // beyond the limit: for nodes, images and sshd to come up, and results to go home
constexpr int kKept_s = 24 * 3600;    // a job that has ended is kept so long: its log holds the results
constexpr int kCpusForOthers = 4;     // of a node: for its daemons, and the launcher
constexpr double kMemoryShare = 0.5;  // of a node, for the pod; the rest is for the node and its caches
constexpr double kShmShare = 0.125;   // of a node, for /dev/shm, which counts as the pod's

// Between quotes, as JSON and YAML both read it.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string indented(const std::string& text, int spaces) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out += std::string(spaces, ' ') + text.substr(at, end - at);
    out += "\n";
    at = end + 1;
  }
  return out;
}

// So many processors that every rank has as many whole ones as every other.
int pod_cpus(const NodeOffer& type, int ranks) {
  const int free = static_cast<int>(type.allocatable_cpus()) - kCpusForOthers;
  return std::max(free / ranks, 1) * ranks;
}

void check(const JobRequest& request) {
  Faults faults;
  const auto matches = [&](const char* flag, const std::string& value, const char* pattern, const char* fix) {
    if (value.size() > 255 || !std::regex_match(value, std::regex(pattern))) {
      faults.add(flag, fmt::format("is '{}'", shown(value)), fix);
    }
  };
  const auto within = [&](const char* flag, int value, int low, int high) {
    if (value < low || value > high)
      faults.add(flag, fmt::format("is {}", value), fmt::format("give {} to {}", low, high));
  };
  constexpr const char* kLabel = "[a-z]([-a-z0-9]*[a-z0-9])?";
  matches("--name", request.name, kLabel, "a letter, then lower-case letters, digits and '-'");
  if (request.name.size() > 40) {
    faults.add("--name", fmt::format("has {} characters", request.name.size()), "40 at most: pods are named after it");
  }
  matches("--namespace", request.name_space, kLabel, "a letter, then lower-case letters, digits and '-'");
  matches("--image", request.image, "[a-zA-Z0-9][-a-zA-Z0-9._/:]*(@sha256:[0-9a-f]{64})?",
          "the image that scripts/eks/image builds: REGISTRY/moe-rl-bench:0.1.0");
  if (!request.queue.empty()) matches("--queue", request.queue, kLabel, "the name of a LocalQueue");
  if (!request.topology.empty()) {
    matches("--topology", request.topology, "[a-z0-9./-]+", "a node label, like topology.k8s.aws/network-node-layer-3");
    if (request.queue.empty())
      faults.add("--topology", "is given without a queue", "add --queue: Kueue places the pods");
  }
  if (!request.capacity_block.empty())
    matches("--capacity-block", request.capacity_block, "cr-[0-9a-f]+", "an id like cr-0123456789abcdef0");
  within("--nodes", request.nodes, 1, kNodesMax);
  within("--ranks-per-node", request.ranks_per_node, 0, kRanksPerNodeMax);
  within("--limit", request.limit_s, 60, kLimitMax_s);
  if (request.launcher == LauncherRole::works && request.nodes < 2) {
    faults.add("--launcher-works", "is given for one node", "leave it out: one worker is as good");
  }
  if (request.command.empty()) faults.add("--command", "is empty", "give one: run");
  for (const std::string& word : request.command) {
    if (!is_printable(word)) faults.add("--command", fmt::format("has '{}'", shown(word)), "give plain words");
  }
  const auto huge = parse_quantity(request.huge_pages);
  if (!request.huge_pages.empty() && (!huge || *huge <= 0 || std::fmod(*huge, 0x1p21) != 0)) {
    faults.add("--hugepages", fmt::format("is '{}'", shown(request.huge_pages)), "give a multiple of 2Mi: 5120Mi");
  }
  const NodeOffer* type = find_node_offer(request.node_type);
  if (type == nullptr || type->vcpus == 0) {
    std::vector<std::string> known;
    for (const NodeOffer& one : node_offers()) {
      if (one.vcpus > 0) known.push_back(one.name);
    }
    faults.add("--instance",
               fmt::format("is '{}', whose processors and memory are not known here", shown(request.node_type)),
               fmt::format("use one of: {}", fmt::join(known, ", ")));
  } else {
    const int ranks = ranks_per_node(request);
    if (type->gpus > 0 && ranks > type->gpus) {
      faults.add("--ranks-per-node", fmt::format("is {}, and a {} has {} GPUs", ranks, type->name, type->gpus),
                 fmt::format("give {} at most", type->gpus));
    } else if (ranks > type->allocatable_cpus() - kCpusForOthers) {
      faults.add("--ranks-per-node", fmt::format("is {}, and a {} has {} processors", ranks, type->name, type->vcpus),
                 fmt::format("give {:.0f} at most", std::floor(type->allocatable_cpus()) - kCpusForOthers));
    }
    if (huge && *huge > type->memory_gib * 0x1p30 * kMemoryShare / 2) {
      faults.add("--hugepages", fmt::format("is {} of {:g} GiB", request.huge_pages, type->memory_gib),
                 "give less: 5120Mi");
    }
  }
  faults.report();
}

std::string resources(const JobRequest& request, const NodeOffer& type) {
  std::string lines = fmt::format("cpu: \"{}\"\nmemory: {:.0f}Gi\n", pod_cpus(type, ranks_per_node(request)),
                                  type.memory_gib * kMemoryShare);
  if (!request.huge_pages.empty()) lines += fmt::format("{}: {}\n", kHugePages, request.huge_pages);
  if (type.gpus > 0) lines += fmt::format("{}: {}\n", kGpu, type.gpus);
  if (request.efa == EfaBy::device_plugin) lines += fmt::format("{}: {}\n", kEfa, type.efa_devices);
  std::string text = "requests:\n" + indented(lines, 2) + "limits:\n" + indented(lines, 2);
  if (request.efa == EfaBy::dra) text += "claims:\n- name: efa\n";
  return text;
}

// Where the pods of the job may run: on one kind of node, in one zone, close together.
std::string placement(const JobRequest& request, const NodeOffer& type) {
  std::string text = fmt::format(R"(nodeSelector:
  node.kubernetes.io/instance-type: {}
)",
                                 type.name);
  if (!request.capacity_block.empty()) {
    text += fmt::format("  topology.k8s.aws/capacity-block-id: {}\n", request.capacity_block);
  }
  text += "tolerations:\n";
  if (type.gpus > 0) text += "- {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}\n";
  text += "- {key: vpc.amazonaws.com/efa, operator: Exists, effect: NoSchedule}\n";
  text += "- {key: capacity-reservation, operator: Exists, effect: NoSchedule}\n";
  // EFA does not leave a zone; layer 3 is the network nearest to the instance.
  return text + fmt::format(R"(affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: topology.kubernetes.io/zone
      labelSelector:
        matchLabels: {{app.kubernetes.io/instance: {0}}}
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: topology.k8s.aws/network-node-layer-3
        labelSelector:
          matchLabels: {{app.kubernetes.io/instance: {0}}}
)",
                            request.name);
}

std::string volumes(const JobRequest& request, const NodeOffer& type, bool has_ranks) {
  std::string text = "- name: results\n  emptyDir: {}\n";
  if (!request.config_yaml.empty()) text += fmt::format("- name: config\n  configMap: {{name: {}}}\n", request.name);
  if (has_ranks) {
    text +=
        fmt::format("- name: shm\n  emptyDir: {{medium: Memory, sizeLimit: {:.0f}Gi}}\n", type.memory_gib * kShmShare);
  }
  return text;
}

std::string mounts(const JobRequest& request, bool has_ranks) {
  std::string text = "- {name: results, mountPath: /results}\n";
  if (!request.config_yaml.empty()) text += "- {name: config, mountPath: /etc/moe-rl-bench, readOnly: true}\n";
  if (has_ranks) text += "- {name: shm, mountPath: /dev/shm}\n";
  return text;
}

std::vector<std::string> launcher_words(const JobRequest& request) {
  const int per_node = ranks_per_node(request);
  std::vector<std::string> words = {
      "--limit", fmt::format("{}", request.limit_s), "--", "/opt/amazon/openmpi/bin/mpirun", "--allow-run-as-root",
      "-np", fmt::format("{}", request.nodes * per_node), "-N", fmt::format("{}", per_node), "--bind-to", "none",
      // MPI's own messages keep to TCP and shared memory: EFA is for the transport.
      "--mca", "pml", "ob1", "--mca", "btl", "tcp,vader,self", "--mca", "btl_tcp_if_exclude",
      "lo,docker0,veth_def_agent",
      // A rank is a child of sshd and has nothing of the pod's environment.
      "-x", "PATH", "-x", "LD_LIBRARY_PATH"};
  if (request.huge_pages.empty()) words.insert(words.end(), {"-x", "FI_EFA_USE_HUGE_PAGE=0"});
  words.push_back("moe-rl-bench");
  words.insert(words.end(), request.command.begin(), request.command.end());
  if (!request.config_yaml.empty())
    words.insert(words.end(), {"/etc/moe-rl-bench/config.yaml", "--set", "output.dir=/results"});
  return words;
}

// A pod template. Launcher and workers differ in what they run, and in who has devices.
std::string pod(const JobRequest& request, const NodeOffer& type, const char* role, bool has_ranks) {
  const bool is_launcher = std::string(role) == "launcher";
  std::string container = fmt::format("- name: {}\n  image: {}\n", role, quoted(request.image));
  if (is_launcher) {
    container += "  command: [moe-rl-bench-launcher]\n  args:\n";
    for (const std::string& word : launcher_words(request)) container += "  - " + quoted(word) + "\n";
  } else {
    container += "  command: [/usr/sbin/sshd, -De]\n";
  }
  if (has_ranks) container += "  securityContext:\n    capabilities: {add: [IPC_LOCK]}\n";
  container += "  volumeMounts:\n" + indented(mounts(request, has_ranks), 2) + "  resources:\n";
  container += has_ranks ? indented(resources(request, type), 4)
                         : "    requests: {cpu: \"1\", memory: 2Gi}\n    limits: {cpu: \"1\", memory: 2Gi}\n";
  std::string spec = placement(request, type);
  if (has_ranks && request.efa == EfaBy::dra) {
    spec += fmt::format("resourceClaims:\n- name: efa\n  resourceClaimTemplateName: {}-efa\n", request.name);
  }
  spec += "containers:\n" + container + "volumes:\n" + volumes(request, type, has_ranks);
  std::string metadata =
      fmt::format("labels:\n  app.kubernetes.io/name: moe-rl-bench\n  app.kubernetes.io/instance: {}\n", request.name);
  if (!request.topology.empty()) {
    metadata += fmt::format(
        "annotations:\n  kueue.x-k8s.io/podset-required-topology: {}\n  kueue.x-k8s.io/podset-group-name: job\n",
        request.topology);
  }
  return "metadata:\n" + indented(metadata, 2) + "spec:\n" + indented(spec, 2);
}

std::string replica(const std::string& pod, int replicas) {
  return fmt::format("replicas: {}\nrestartPolicy: Never\ntemplate:\n", replicas) + indented(pod, 2);
}

std::string heading(const JobRequest& request, const NodeOffer& type) {
  std::string text = fmt::format("# {} x {}, {} ranks on each", request.nodes, type.name, ranks_per_node(request));
  if (type.usd_per_hour > 0) {
    text +=
        fmt::format("; {:.2f} USD/h on demand in us-east-1 ({})", request.nodes * type.usd_per_hour, type.price_source);
  }
  return text + "\n# Made by moe-rl-bench manifest render; check it with moe-rl-bench manifest check.\n";
}

std::string config_map(const JobRequest& request) {
  if (request.config_yaml.empty()) return "";
  return fmt::format(
             "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {}\n  namespace: {}\ndata:\n  config.yaml: |\n",
             request.name, request.name_space) +
         indented(request.config_yaml, 4) + "---\n";
}

std::string efa_claim(const JobRequest& request) {
  if (request.efa != EfaBy::dra) return "";
  return fmt::format(R"(apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: {}-efa
  namespace: {}
spec:
  spec:
    devices:
      requests:
      - name: efa
        exactly:
          deviceClassName: efa.networking.k8s.aws
          allocationMode: All
---
)",
                     request.name, request.name_space);
}

}  // namespace

int ranks_per_node(const JobRequest& request) {
  const NodeOffer* type = find_node_offer(request.node_type);
  if (request.ranks_per_node > 0 || type == nullptr) return request.ranks_per_node;
  return type->gpus > 0 ? type->gpus : std::max(type->efa_devices, 1);
}

std::string render_job(const JobRequest& request) {
  check(request);
  const NodeOffer& type = *find_node_offer(request.node_type);
  const bool launcher_works = request.launcher == LauncherRole::works;
  std::string job =
      fmt::format("apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata:\n  name: {}\n  namespace: {}\n",
                  request.name, request.name_space);
  if (!request.queue.empty()) job += fmt::format("  labels:\n    kueue.x-k8s.io/queue-name: {}\n", request.queue);
  job += fmt::format(R"(spec:
  slotsPerWorker: {}
  runLauncherAsWorker: {}
  launcherCreationPolicy: WaitForWorkersReady
  mpiImplementation: OpenMPI
  sshAuthMountPath: /root/.ssh
  runPolicy:
    cleanPodPolicy: Running
    backoffLimit: 0
    activeDeadlineSeconds: {}
    ttlSecondsAfterFinished: {}
  mpiReplicaSpecs:
    Launcher:
)",
                     ranks_per_node(request), launcher_works, request.limit_s + kSlack_s, kKept_s);
  job += indented(replica(pod(request, type, "launcher", launcher_works), 1), 6) + "    Worker:\n" +
         indented(replica(pod(request, type, "worker", true), request.nodes - (launcher_works ? 1 : 0)), 6);
  return heading(request, type) + "---\n" + config_map(request) + efa_claim(request) + job;
}

}  // namespace mrb
