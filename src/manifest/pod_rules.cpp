#include <fmt/format.h>

#include <cmath>
#include <set>

#include "config/faults.hpp"
#include "manifest/quantity.hpp"
#include "manifest/rules.hpp"

namespace mrb {

namespace {

// Devices and huge pages: never more or less than was asked for.
bool is_extended(const std::string& resource) {
  return resource.find('/') != std::string::npos || resource.starts_with("hugepages-");
}

void check_requests(const YamlNode& container, ManifestFindings& findings) {
  const YamlNode& limits = container["resources"]["limits"];
  const YamlNode& requests = container["resources"]["requests"];
  for (const auto& [name, request] : requests.fields) {
    const auto asked = parse_quantity(request.text), limit = parse_quantity(limits[name].text);
    if (!limits[name].is_given() && is_extended(name)) {
      findings.add(ManifestSeverity::error, "request-limit", request,
                   {fmt::format("{} is requested, and has no limit", shown(name)),
                    "devices and huge pages need a limit: the API server refuses the pod",
                    fmt::format("limits: {{{}: {}}}", shown(name), shown(request.text))});
    } else if (asked && limit && is_extended(name) && *asked != *limit) {
      findings.add(ManifestSeverity::error, "request-limit", request,
                   {fmt::format("{}: the request is {}, the limit {}", shown(name), shown(request.text),
                                shown(limits[name].text)),
                    "for devices and huge pages both must be equal: the API server refuses the pod",
                    fmt::format("request {} too", shown(limits[name].text))});
    } else if (asked && limit && *asked > *limit) {
      findings.add(ManifestSeverity::error, "request-limit", request,
                   {fmt::format("{}: the request {} is above the limit {}", shown(name), shown(request.text),
                                shown(limits[name].text)),
                    "the API server refuses the pod", fmt::format("request {} at most", shown(limits[name].text))});
    }
  }
  for (const YamlNode* kind : {&limits, &requests}) {
    for (const auto& [name, value] : kind->fields) {
      const auto quantity = parse_quantity(value.text);
      if (quantity && name.find('/') != std::string::npos && *quantity != std::floor(*quantity)) {
        findings.add(ManifestSeverity::error, "whole-devices", value,
                     {fmt::format("{} is {}", shown(name), shown(value.text)),
                      "devices come whole: the API server refuses the pod", "give a whole number"});
      }
    }
  }
  const auto huge = parse_quantity(limits[kHugePages].text);
  if (huge && std::fmod(*huge, 0x1p21) != 0) {
    findings.add(ManifestSeverity::error, "huge-pages", limits[kHugePages],
                 {fmt::format("hugepages-2Mi is {}", shown(limits[kHugePages].text)),
                  "that is no whole number of pages of 2 MiB: the API server refuses the pod",
                  "give a multiple of 2Mi: 5120Mi"});
  }
  const auto has = [&](const char* name) { return limits[name].is_given() || requests[name].is_given(); };
  if (has(kHugePages) && !has("cpu") && !has("memory")) {
    findings.add(ManifestSeverity::error, "huge-pages", limits[kHugePages],
                 {"hugepages-2Mi stands without cpu and memory", "the API server refuses huge pages alone",
                  "add a memory request and limit"});
  }
}

// Guaranteed: cpu and memory of every container are limited, and requested as they are limited.
void check_quality(const Replica& worker, ManifestFindings& findings) {
  for (const YamlNode& container : worker.pod["containers"].items) {
    std::string missing;
    for (const char* name : {"cpu", "memory"}) {
      const YamlNode& limit = container["resources"]["limits"][name];
      const YamlNode& request = container["resources"]["requests"][name];
      // What is no quantity is another rule's.
      const auto asked = parse_quantity(request.text), limited = parse_quantity(limit.text);
      const bool is_same = !asked || !limited || *asked == *limited;
      if (!limit.is_given() || !is_same) missing += (missing.empty() ? "" : " and ") + std::string(name);
    }
    if (missing.empty()) continue;
    findings.add_missing(
        ManifestSeverity::warning, "guaranteed", container, "resources",
        {fmt::format("{}: {} has no limit that equals its request", container.path, missing),
         "the pod is Burstable: threads that drive the network are throttled or the pod is evicted, and the numbers "
         "are tainted",
         fmt::format("give {} the same value in requests and limits, cpu as a whole number", missing)});
  }
}

void check_against_type(const JobView& view, const Replica& replica, ManifestFindings& findings) {
  const NodeOffer& type = *view.worker_type;
  const YamlNode& limits = replica.container["resources"]["limits"];
  const auto too_much = [&](const char* resource, double has, const std::string& text) {
    const auto asked = replica.asked(resource);
    if (has <= 0 || !asked || *asked <= has) return;
    const YamlNode& at = limits[resource].is_given() ? limits[resource] : replica.container["resources"];
    findings.add(ManifestSeverity::error, "node-size", at,
                 {fmt::format("{} is {}, and a {} has {} for pods", resource, shown(at.text), type.name, text),
                  "no node ever fits: the pod stays Pending", fmt::format("ask for {} at most", text)});
  };
  too_much(kGpu, type.gpus == 0 ? 0.5 : type.gpus, std::to_string(type.gpus));
  too_much(kEfa, type.efa_devices, std::to_string(type.efa_devices));
  too_much("cpu", type.vcpus == 0 ? 0 : type.allocatable_cpus(), fmt::format("{:.2f}", type.allocatable_cpus()));
  too_much("memory", type.memory_gib * 0x1p30 - replica.asked(kHugePages).value_or(0),
           fmt::format("{:.0f}Gi", type.memory_gib - replica.asked(kHugePages).value_or(0) / 0x1p30));

  const auto efa = replica.asked(kEfa);
  if (efa && *efa > 0 && *efa < type.efa_devices && replica.asked(kGpu).value_or(0) >= type.gpus) {
    findings.add(ManifestSeverity::warning, "efa-count", limits[kEfa],
                 {fmt::format("{} is {}, and a {} has {}", kEfa, shown(limits[kEfa].text), type.name, type.efa_devices),
                  "the pod takes the whole node and leaves a part of its network idle",
                  fmt::format("{}: {}", kEfa, type.efa_devices)});
  }
}

void check_devices(const JobView& view, ManifestFindings& findings) {
  const Replica& worker = view.worker;
  const auto gpus = worker.asked(kGpu), efa = worker.asked(kEfa);
  const YamlNode& gpu_limit = worker.container["resources"]["limits"][kGpu];
  if (gpus && view.slots && *gpus > 0 && *gpus < *view.slots) {
    findings.add(ManifestSeverity::error, "gpus", gpu_limit,
                 {fmt::format("a worker has {} slots and {} GPUs", *view.slots, *gpus),
                  "ranks without a GPU of their own fail or share one", fmt::format("slotsPerWorker: {}", *gpus)});
  }
  const bool has_claims = worker.pod["resourceClaims"].is_given();
  const bool has_efa = efa.value_or(0) > 0 || has_claims;
  const bool expects_efa = gpus.value_or(0) > 0 || (view.worker_type != nullptr && view.worker_type->efa_devices > 0);
  if (view.has_network() && !has_efa && expects_efa &&
      (view.worker_type == nullptr || view.worker_type->efa_devices > 0)) {
    const std::string count =
        view.worker_type != nullptr ? std::to_string(view.worker_type->efa_devices) : "as many as the node has";
    findings.add_missing(
        ManifestSeverity::warning, "no-efa", worker.container, fmt::format("resources.limits[{}]", kEfa),
        {fmt::format("{} workers ask for no {}", view.nodes.value_or(0), kEfa),
         "ranks on different nodes talk over TCP, many times slower, and nothing says so",
         fmt::format("limits and requests: {}: {}; or resourceClaims of the EFA DRA driver", kEfa, count)});
  }
  if (!has_efa) return;

  const YamlNode& security = worker.container["securityContext"];
  bool may_lock = security["privileged"].text == "true";
  for (const YamlNode& one : security["capabilities"]["add"].items) {
    may_lock = may_lock || one.text == "IPC_LOCK" || one.text == "ALL";
  }
  if (!may_lock) {
    findings.add_missing(ManifestSeverity::warning, "ipc-lock", worker.container, "securityContext.capabilities.add",
                         {"the workers have EFA and no IPC_LOCK",
                          "where the node limits locked memory, registering it fails: EFA error 4112 or -12",
                          "securityContext: {capabilities: {add: [IPC_LOCK]}}"});
  }
  bool avoids_huge_pages = worker.asked(kHugePages).has_value();
  for (const MpirunLine& line : view.mpirun_lines) {
    for (const auto& [name, value] : line.exported)
      avoids_huge_pages = avoids_huge_pages || name == "FI_EFA_USE_HUGE_PAGE";
  }
  if (!avoids_huge_pages && !view.mpirun_lines.empty()) {
    findings.add_missing(
        ManifestSeverity::note, "huge-pages", worker.container, fmt::format("resources.limits.{}", kHugePages),
        {"the workers have EFA and no huge pages", "libfabric tries to map its bounce buffers from them",
         "hugepages-2Mi: 5120Mi in limits and requests, or mpirun -x FI_EFA_USE_HUGE_PAGE=0"});
  }
  if (!view.has_network()) return;
  const YamlNode& affinity = worker.pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
  bool in_one_zone = worker.pod["nodeSelector"]["topology.kubernetes.io/zone"].is_given() ||
                     worker.pod["nodeSelector"]["topology.kubernetes.io/zone"].is_given() ||
                     worker.pod["nodeSelector"]["topology.k8s.aws/capacity-block-id"].is_given() ||
                     worker.pod["nodeSelector"]["topology.k8s.aws/zone-id"].is_given();
  for (const YamlNode& term : affinity.items) in_one_zone = in_one_zone || term["topologyKey"].is_given();
  for (const char* key : {"kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology"}) {
    in_one_zone = in_one_zone || worker.spec["template"]["metadata"]["annotations"][key].is_given();
  }
  if (!in_one_zone) {
    findings.add_missing(
        ManifestSeverity::note, "zone", worker.pod, "affinity.podAffinity",
        {"nothing keeps the workers in one availability zone", "EFA does not reach from one zone into another",
         "require podAffinity on topology.kubernetes.io/zone, unless all nodes are in one zone anyway"});
  }
}

const YamlNode* volume_named(const YamlNode& pod, const std::string& name) {
  for (const YamlNode& volume : pod["volumes"].items) {
    if (volume["name"].text == name) return &volume;
  }
  return nullptr;
}

void check_volumes(const Replica& replica, bool needs_shm, ManifestFindings& findings) {
  bool has_shm = false;
  for (const YamlNode& container : replica.pod["containers"].items) {
    for (const YamlNode& mount : container["volumeMounts"].items) {
      const YamlNode* volume = volume_named(replica.pod, mount["name"].text);
      if (volume == nullptr && mount["name"].is_given()) {
        findings.add(ManifestSeverity::error, "volume", mount["name"],
                     {fmt::format("there is no volume '{}'", shown(mount["name"].text)),
                      "the API server refuses the pod, and the operator only notes an event",
                      "add it under `volumes:` of the pod, or correct the name"});
        continue;
      }
      std::string path = mount["mountPath"].text;
      while (path.size() > 1 && path.back() == '/') path.pop_back();
      if (path != "/dev/shm" || volume == nullptr) continue;
      has_shm = true;
      const auto size = parse_quantity((*volume)["emptyDir"]["sizeLimit"].text);
      const auto memory = replica.asked("memory");
      if (size && memory && *size > *memory) {
        findings.add(ManifestSeverity::warning, "shm-size", (*volume)["emptyDir"]["sizeLimit"],
                     {fmt::format("/dev/shm may take {}, and the pod's memory limit is below that",
                                  (*volume)["emptyDir"]["sizeLimit"].text),
                      "what lies in it counts as the pod's memory: the pod is killed before it is full",
                      "lower sizeLimit, or raise the memory limit"});
      }
    }
  }
  for (const YamlNode& volume : replica.pod["volumes"].items) {
    const YamlNode& host = volume["hostPath"]["path"];
    if (host.text.starts_with("/dev/infiniband")) {
      findings.add(
          ManifestSeverity::error, "host-infiniband", host,
          {"the node's /dev/infiniband is mounted",
           "devices that are not EFA's become visible, the EFA provider finds nothing (-61), and traffic goes over TCP",
           fmt::format("delete the volume: {} brings the pod's own devices", kEfa)});
    } else if (host.text.starts_with("/dev/shm")) {
      findings.add(
          ManifestSeverity::warning, "host-shm", host,
          {"the node's /dev/shm is mounted", "segments of jobs that crashed stay there, and jobs see each other's",
           "emptyDir: {medium: Memory, sizeLimit: ...}"});
    }
    if (volume["emptyDir"].kind == YamlNode::Kind::map && !host.is_given()) {
      const std::string& medium = volume["emptyDir"]["medium"].text;
      if (!medium.empty() && medium != "Memory" && !medium.starts_with("HugePages")) {
        findings.add(ManifestSeverity::error, "medium", volume["emptyDir"]["medium"],
                     {fmt::format("emptyDir's medium is '{}'", shown(medium)), "the API server refuses the pod",
                      "medium: Memory"});
      }
    }
  }
  if (needs_shm && !has_shm) {
    findings.add_missing(ManifestSeverity::warning, "no-shm", replica.container, "volumeMounts",
                         {"the workers have the default /dev/shm of 64 MiB",
                          "ranks of a node exchange through it: MPI, NCCL and libfabric run out of it",
                          "mount an emptyDir {medium: Memory, sizeLimit: ...} at /dev/shm"});
  }
}

void check_containers(const Replica& replica, ManifestFindings& findings) {
  std::set<std::string> names;
  for (const char* list : {"initContainers", "containers"}) {
    for (const YamlNode& container : replica.pod[list].items) {
      const YamlNode& name = container["name"];
      if (name.is_given() && !names.insert(name.text).second) {
        findings.add(ManifestSeverity::error, "container-name", name,
                     {fmt::format("two containers are called '{}'", shown(name.text)), "the API server refuses the pod",
                      "give each a name of its own"});
      }
      const YamlNode& image = container["image"];
      if (!image.is_given() && container.kind == YamlNode::Kind::map) {
        findings.add_missing(
            ManifestSeverity::error, "image", container, "image",
            {fmt::format("{} has no image", container.path), "the API server refuses the pod", "add one"});
      } else if (image.text.find_first_of("<> ") != std::string::npos) {
        findings.add(
            ManifestSeverity::error, "image", image,
            {fmt::format("the image is '{}'", shown(image.text)),
             "that is no name of an image: the pod ends in InvalidImageName", "fill in what stands between < and >"});
      } else if (image.is_given() && !is_placeholder(image) && image.text.find('@') == std::string::npos) {
        const std::string last = image.text.substr(image.text.rfind('/') + 1);
        const bool is_latest = last.find(':') == std::string::npos || last.ends_with(":latest");
        if (is_latest) {
          findings.add(
              ManifestSeverity::note, "image-tag", image,
              {fmt::format("the image is {}", shown(image.text, 100)),
               "what it names changes, also between nodes: runs cannot be repeated", "name a version, or a digest"});
        }
      }
    }
  }
}

// The operator gives the host file, the keys and the environment to the first container alone.
void check_sidecar(const JobView& view, ManifestFindings& findings) {
  const auto misplaced = [&](const Replica& replica, std::size_t at, const char* what) {
    const YamlNode& first = replica.container;
    findings.add(ManifestSeverity::error, "sidecar-first", first,
                 {fmt::format("'{}' is the first container, and the one that {} is number {}",
                              shown(first["name"].text), what, at + 1),
                  "the operator gives host file, ssh keys and environment to the first one alone",
                  fmt::format("put '{}' first", shown(replica.pod["containers"].items[at]["name"].text))});
  };
  const auto& of_launcher = view.launcher.pod["containers"].items;
  for (std::size_t i = 1; i < of_launcher.size() && view.mpirun_lines.empty(); ++i) {
    if (!find_mpirun(of_launcher[i]).empty()) return misplaced(view.launcher, i, "runs mpirun");
  }
  const auto& of_worker = view.worker.pod["containers"].items;
  const auto has_devices = [](const YamlNode& container) {
    const YamlNode& limits = container["resources"]["limits"];
    return limits[kGpu].is_given() || limits[kEfa].is_given();
  };
  for (std::size_t i = 1; i < of_worker.size() && !has_devices(of_worker[0]); ++i) {
    if (has_devices(of_worker[i])) return misplaced(view.worker, i, "has the devices");
  }
}

void check_launcher(const JobView& view, ManifestFindings& findings) {
  const Replica& launcher = view.launcher;
  const YamlNode& limits = launcher.container["resources"]["limits"];
  if (view.launcher_works) {
    for (const char* resource : {kGpu, kEfa, kHugePages}) {
      const double needs = view.worker.asked(resource).value_or(0), has = launcher.asked(resource).value_or(0);
      if (needs <= has) continue;
      findings.add_missing(ManifestSeverity::error, "launcher-resources", launcher.container, "resources",
                           {fmt::format("the launcher is a worker too, and has {:.0f} of {} where a worker has {:.0f}",
                                        has, resource, needs),
                            "rank 0 runs in the launcher's pod, without what the others have",
                            "give the launcher the resources of a worker"});
    }
  } else if (launcher.asked(kGpu).value_or(0) > 0) {
    findings.add(ManifestSeverity::warning, "launcher-gpus", limits[kGpu],
                 {fmt::format("the launcher takes {} GPUs", limits[kGpu].text),
                  "it only runs mpirun, and the operator hides its GPUs from it; they are paid for, and a node is full",
                  "take them out, or set spec.runLauncherAsWorker: true"});
  }
  const YamlNode& of_container = launcher.container["securityContext"]["runAsUser"];
  const YamlNode& user = of_container.is_given() ? of_container : launcher.pod["securityContext"]["runAsUser"];
  const YamlNode& keys = view.spec["sshAuthMountPath"];
  if (user.integer().value_or(0) > 0 && (!keys.is_given() || keys.text.starts_with("/root"))) {
    findings.add(ManifestSeverity::error, "ssh-path", user,
                 {fmt::format("the launcher runs as user {}, and the ssh keys are mounted in /root/.ssh", user.text),
                  "it cannot read them: no worker lets mpirun in", "sshAuthMountPath: /home/USER/.ssh"});
  }
}

}  // namespace

void check_pods(const JobView& view, ManifestFindings& findings) {
  for (const Replica* replica : {&view.launcher, &view.worker}) {
    if (!replica->is_given()) continue;
    for (const YamlNode& container : replica->pod["containers"].items) check_requests(container, findings);
    check_containers(*replica, findings);
    if (replica->pod["hostNetwork"].text == "true") {
      findings.add(
          ManifestSeverity::warning, "host-network", replica->pod["hostNetwork"],
          {"hostNetwork is true",
           "the pod's names no longer lead to it, sshd's port is the node's, and EFA is easily missed without a word",
           "delete it"});
    }
  }
  check_sidecar(view, findings);
  check_launcher(view, findings);
  const bool is_measured = view.worker.asked(kGpu).value_or(0) > 0 || view.worker.asked(kEfa).value_or(0) > 0;
  check_volumes(view.launcher, is_measured && view.launcher_works, findings);
  if (!view.worker.is_given()) return;
  check_volumes(view.worker, is_measured, findings);
  if (is_measured) check_quality(view.worker, findings);
  check_devices(view, findings);
  if (view.worker_type != nullptr) {
    check_against_type(view, view.worker, findings);
    if (view.launcher_works) check_against_type(view, view.launcher, findings);
  }
}

}  // namespace mrb
