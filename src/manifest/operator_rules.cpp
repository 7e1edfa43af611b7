#include <fmt/format.h>
#include <fmt/ranges.h>

#include <regex>
#include <set>

#include "config/faults.hpp"
#include "config/fields.hpp"
#include "manifest/rules.hpp"

namespace mrb {

namespace {

constexpr const char* kSilence =
    "the operator refuses the job with one event and no status: no pod starts, and it looks like a hang";

void check_version(const JobView& view, ManifestFindings& findings) {
  const YamlNode& version = view.job["apiVersion"];
  if (version.text == "kubeflow.org/v2beta1") return;
  const Words words{
      version.is_given() ? fmt::format("apiVersion is '{}'", shown(version.text)) : "apiVersion is missing",
      "MPIJobs of other versions belong to the old Training Operator, whose fields differ",
      "apiVersion: kubeflow.org/v2beta1"};
  if (version.is_given()) {
    findings.add(ManifestSeverity::error, "api-version", version, words);
  } else {
    findings.add_missing(ManifestSeverity::error, "api-version", view.job, "apiVersion", words);
  }
}

void check_name(const JobView& view, ManifestFindings& findings) {
  const YamlNode& metadata = view.job["metadata"];
  const bool is_generated = !metadata["name"].is_given() && metadata["generateName"].is_given();
  const YamlNode& name = metadata[is_generated ? "generateName" : "name"];
  if (!name.is_given()) {
    return findings.add_missing(ManifestSeverity::error, "name", view.job, "metadata.name",
                                {"metadata.name is missing", "the API server refuses the job", "add a name"});
  }
  if (is_placeholder(name) || name.kind != YamlNode::Kind::text) return;
  const int workers = std::max(1, view.nodes.value_or(1) - (view.launcher_works ? 1 : 0));
  const std::string pod = fmt::format("{}{}-worker-{}", name.text, is_generated ? "xxxxx" : "", workers - 1);
  static const std::regex label("[a-z]([-a-z0-9]*[a-z0-9])?");
  if (pod.size() > 63) {
    findings.add(ManifestSeverity::error, "name", name,
                 {fmt::format("the pod's name {} would have {} characters", shown(pod, 100), pod.size()),
                  fmt::format("a pod's host name has 63 at most; {}", kSilence),
                  fmt::format("make {} at least {} characters shorter", name.path, pod.size() - 63)});
  } else if (!std::regex_match(pod, label)) {
    findings.add(
        ManifestSeverity::error, "name", name,
        {fmt::format("{} is '{}'", name.path, shown(name.text)),
         fmt::format("pods are named after it, and a host name begins with a letter and holds lower-case letters, "
                     "digits and '-' only; {}",
                     kSilence),
         "use a name like moe-rl-bench-7"});
  }
}

// One of a few words, written exactly so.
void check_word(const YamlNode& node, const char* rule, const std::vector<std::string>& words, const std::string& why,
                ManifestFindings& findings) {
  if (!node.is_given() || std::find(words.begin(), words.end(), node.text) != words.end()) return;
  findings.add(ManifestSeverity::error, rule, node,
               {fmt::format("{} is '{}'", node.path, shown(node.text)), why,
                fmt::format("use one of: {}", fmt::join(words, ", "))});
}

void check_not_negative(const YamlNode& node, ManifestFindings& findings) {
  if (node.integer().value_or(0) >= 0) return;
  findings.add(ManifestSeverity::error, "negative", node,
               {fmt::format("{} is {}", node.path, node.text), kSilence, "give 0 or more"});
}

void check_run_policy(const JobView& view, ManifestFindings& findings) {
  const YamlNode& policy = view.spec["runPolicy"];
  const YamlNode& clean = policy["cleanPodPolicy"];
  const std::string keeps = "workers stay after the launcher has ended, and keep their nodes for ever";
  if (!clean.is_given()) {
    findings.add_missing(
        ManifestSeverity::warning, "clean-pod-policy", view.spec, "runPolicy.cleanPodPolicy",
        {"spec.runPolicy.cleanPodPolicy is not set, which means None", keeps, "cleanPodPolicy: Running"});
  } else if (clean.text == "None") {
    findings.add(ManifestSeverity::warning, "clean-pod-policy", clean,
                 {"spec.runPolicy.cleanPodPolicy is None", keeps, "cleanPodPolicy: Running"});
  }
  check_word(clean, "clean-pod-policy", {"Running", "All", "None"}, kSilence, findings);
  check_word(policy["managedBy"], "managed-by", {"kubeflow.org/mpi-operator", "kueue.x-k8s.io/multikueue"}, kSilence,
             findings);
  for (const char* key : {"ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit"}) {
    check_not_negative(policy[key], findings);
  }
  const YamlNode& retries = policy["backoffLimit"];
  if (!retries.is_given()) {
    findings.add_missing(ManifestSeverity::note, "retries", view.spec, "runPolicy.backoffLimit",
                         {"spec.runPolicy.backoffLimit is not set, which means 6",
                          "a benchmark that fails is run again, up to six times, without a word in its results",
                          "backoffLimit: 0, and wait for sshd with a limit before mpirun"});
  } else if (retries.integer().value_or(0) > 1) {
    findings.add(ManifestSeverity::note, "retries", retries,
                 {fmt::format("spec.runPolicy.backoffLimit is {}", retries.text),
                  "a benchmark that fails is run again without a word in its results",
                  "backoffLimit: 0, and wait for sshd with a limit before mpirun"});
  }
  if (!policy["activeDeadlineSeconds"].is_given()) {
    findings.add_missing(ManifestSeverity::note, "deadline", view.spec, "runPolicy.activeDeadlineSeconds",
                         {"spec.runPolicy.activeDeadlineSeconds is not set",
                          "mpirun waits without end for a node that is gone, and the others are paid for meanwhile",
                          "activeDeadlineSeconds: a little more than the run may take"});
  }
  const bool has_queue = view.job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"].is_given();
  if (policy["suspend"].text == "true" && !has_queue) {
    findings.add(ManifestSeverity::warning, "suspended", policy["suspend"],
                 {"spec.runPolicy.suspend is true, and no queue is named", "nobody resumes the job: no pod starts",
                  "delete `suspend`, or add the label kueue.x-k8s.io/queue-name to metadata.labels"});
  }
  if (view.spec["launcherCreationPolicy"].text == "WaitForWorkersReady" && policy["suspend"].text == "true") {
    findings.add(ManifestSeverity::note, "launcher-policy", view.spec["launcherCreationPolicy"],
                 {"the launcher is to wait for the workers, and the job starts suspended",
                  "after a job was suspended the operator starts the launcher at once (mpi-operator#868)",
                  "wait for sshd with a limit before mpirun"});
  }
}

void check_replica(const char* name, const Replica& replica, ManifestFindings& findings) {
  check_word(replica.spec["restartPolicy"], "restart-policy", {"Never", "OnFailure"}, kSilence, findings);
  const YamlNode& containers = replica.pod["containers"];
  if (replica.spec["template"].is_given() && replica.pod.is_given() && containers.kind == YamlNode::Kind::list &&
      containers.items.empty()) {
    findings.add(ManifestSeverity::error, "containers", containers,
                 {fmt::format("the {} has no container", name), kSilence, "add one under `containers:`"});
  }
  if (const YamlNode& policy = replica.pod["restartPolicy"]; policy.is_given()) {
    const YamlNode& above = replica.spec["restartPolicy"];
    if (policy.text != (above.is_given() ? above.text : "Never")) {
      findings.add(ManifestSeverity::note, "pod-restart-policy", policy,
                   {fmt::format("the pod's restartPolicy is {}", shown(policy.text)),
                    fmt::format("the operator overrides it with spec.mpiReplicaSpecs.{}.restartPolicy ({})", name,
                                above.is_given() ? shown(above.text) : "Never by default"),
                    "delete it here"});
    }
  }
  const YamlNode& count = replica.spec["replicas"];
  if (std::string(name) == "Launcher") {
    if (count.integer().value_or(1) != 1) {
      findings.add(ManifestSeverity::error, "launcher-replicas", count,
                   {fmt::format("the launcher has {} replicas", count.text), kSilence, "replicas: 1"});
    }
  } else if (count.integer().value_or(1) < 1 || !count.is_given()) {
    const Words words{
        count.is_given() ? fmt::format("there are {} workers", count.text) : "no number of workers is given", kSilence,
        "replicas: how many nodes the job takes"};
    count.is_given()
        ? findings.add(ManifestSeverity::error, "worker-replicas", count, words)
        : findings.add_missing(ManifestSeverity::error, "worker-replicas", replica.spec, "replicas", words);
  }
}

void check_replicas(const JobView& view, ManifestFindings& findings) {
  const YamlNode& specs = view.spec["mpiReplicaSpecs"];
  if (specs.kind != YamlNode::Kind::map) return;  // the schema says so
  bool is_misspelt = false;
  for (const auto& [name, spec] : specs.fields) {
    if (name == "Launcher" || name == "Worker") continue;
    is_misspelt = true;
    findings.add(ManifestSeverity::error, "replica-name", spec,
                 {fmt::format("'{}' is no kind of replica", shown(name)),
                  "the operator reads the keys Launcher and Worker, spelt so, and passes over all others",
                  fmt::format("call it {}", nearest(name, {"Launcher", "Worker"}))});
  }
  if (view.launcher.is_given()) check_replica("Launcher", view.launcher, findings);
  if (view.worker.is_given()) check_replica("Worker", view.worker, findings);
  if (!view.launcher.is_given() && !is_misspelt) {
    findings.add_missing(ManifestSeverity::error, "launcher", specs, "Launcher",
                         {"there is no launcher", kSilence, "add Launcher, whose first container runs mpirun"});
  }
  if (!view.worker.is_given() && !is_misspelt && !view.launcher_works) {
    findings.add_missing(ManifestSeverity::error, "workers", specs, "Worker",
                         {"there are no workers, and the launcher is none",
                          "the host file is empty: mpirun finds no slots", "add Worker, or runLauncherAsWorker: true"});
  }
}

}  // namespace

void check_operator_rules(const JobView& view, ManifestFindings& findings) {
  check_version(view, findings);
  check_name(view, findings);
  check_run_policy(view, findings);
  check_replicas(view, findings);
  check_not_negative(view.spec["slotsPerWorker"], findings);
  check_word(view.spec["launcherCreationPolicy"], "launcher-policy", {"AtStartup", "WaitForWorkersReady"},
             "the operator takes any word, and treats those it does not know as AtStartup", findings);
  const YamlNode& keys = view.spec["sshAuthMountPath"];
  if (keys.kind == YamlNode::Kind::text && keys.text.empty()) {
    findings.add(ManifestSeverity::error, "ssh-path", keys,
                 {"spec.sshAuthMountPath is empty", kSilence, "delete it: /root/.ssh is the default"});
  }
}

}  // namespace mrb
