#include "manifest/job_view.hpp"

#include "manifest/quantity.hpp"

namespace mrb {

namespace {

const YamlNode& first(const YamlNode& list) {
  static const YamlNode missing;
  return list.items.empty() ? missing : list.items.front();
}

Replica replica_of(const YamlNode& spec) {
  const YamlNode& pod = spec["template"]["spec"];
  return {spec, pod, first(pod["containers"])};
}

std::optional<int> integer_or(const YamlNode& node, int otherwise) {
  if (!node.is_given()) return otherwise;
  const auto value = node.integer();
  return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
}

// By the node selector, or by a node affinity that leaves one choice.
const NodeOffer* type_of(const YamlNode& pod) {
  constexpr const char* kLabel = "node.kubernetes.io/instance-type";
  if (const YamlNode& selected = pod["nodeSelector"][kLabel]; selected.is_given())
    return find_node_offer(selected.text);
  const YamlNode& terms =
      pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
  for (const YamlNode& expression : first(terms)["matchExpressions"].items) {
    const auto& values = expression["values"].items;
    if (terms.items.size() == 1 && expression["key"].text == kLabel && expression["operator"].text == "In" &&
        values.size() == 1) {
      return find_node_offer(values.front().text);
    }
  }
  return nullptr;
}

}  // namespace

std::optional<double> Replica::asked(const char* resource) const {
  std::optional<double> sum;
  for (const YamlNode& one : pod["containers"].items) {
    for (const char* kind : {"limits", "requests"}) {
      const YamlNode& given = one["resources"][kind][resource];
      if (!given.is_given()) continue;
      const auto value = parse_quantity(given.text);
      if (!value) return std::nullopt;
      sum = sum.value_or(0) + *value;
      break;
    }
  }
  return sum;
}

JobView::JobView(const YamlNode& document)
    : job(document),
      spec(job["spec"]),
      launcher(replica_of(spec["mpiReplicaSpecs"]["Launcher"])),
      worker(replica_of(spec["mpiReplicaSpecs"]["Worker"])),
      launcher_works(spec["runLauncherAsWorker"].text == "true"),
      is_open_mpi(!spec["mpiImplementation"].is_given() || spec["mpiImplementation"].text == "OpenMPI"),
      slots(integer_or(spec["slotsPerWorker"], 1)),
      nodes(worker.is_given() ? integer_or(worker.spec["replicas"], 0) : 0),
      mpirun_lines(find_mpirun(launcher.container)),
      worker_type(type_of(worker.is_given() ? worker.pod : launcher.pod)) {
  if (nodes && launcher_works) ++*nodes;
}

}  // namespace mrb
