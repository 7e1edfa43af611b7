#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <regex>
#include <set>

#include "config/faults.hpp"
#include "manifest/rules.hpp"

namespace mrb {

namespace {

// Variables that libraries and programs read in a rank. Others may be meant for the pod's own scripts.
bool is_for_ranks(const std::string& name) {
  static const std::array prefixes = {"FI_",    "NCCL_",    "OFI_",      "RDMAV_", "IBV_", "UCX_",     "MRB_",
                                      "OMP_",   "CUDA_",    "NVSHMEM_",  "UCCL_",  "EP_",  "DEEP_EP_", "GLOO_",
                                      "TORCH_", "PYTORCH_", "MOONCAKE_", "HF_",    "MKL_", "KMP_"};
  static const std::set<std::string> names = {"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"};
  return names.contains(name) ||
         std::any_of(prefixes.begin(), prefixes.end(), [&](const char* prefix) { return name.starts_with(prefix); });
}

// Values that were once good advice or switch EFA off, with why and what to do.
struct Suspicious {
  const char* name;
  const char* value;  // a regular expression
  ManifestSeverity severity;
  const char* why;
  const char* fix;
};

constexpr Suspicious kSuspicious[] = {
    {"FI_PROVIDER", "tcp.*|sockets|net", ManifestSeverity::warning, "the ranks talk over TCP, not over EFA",
     "FI_PROVIDER=efa, or leave it out"},
    {"NCCL_NET", "[Ss]ocket", ManifestSeverity::warning, "NCCL talks over TCP, not over EFA", "leave it out"},
    {"NCCL_NET_PLUGIN", ".*(/|\\.so).*", ManifestSeverity::warning,
     "NCCL looks for a short name, and goes over TCP when it finds no such plug-in", "NCCL_NET_PLUGIN=ofi"},
    {"NCCL_IB_DISABLE", ".*", ManifestSeverity::note,
     "it does not concern EFA, which NCCL reaches through the OFI plug-in", "leave it out"},
    {"RDMAV_FORK_SAFE", ".*", ManifestSeverity::warning,
     "it makes registering memory slow, and clashes with huge pages",
     "leave it out: kernels from 5.15 on need nothing"},
    {"RDMAV_HUGEPAGES_SAFE", ".*", ManifestSeverity::warning, "it makes registering memory slow", "leave it out"},
    {"FI_EFA_FORK_SAFE", ".*", ManifestSeverity::note, "it does nothing on kernels from 5.15 on", "leave it out"},
    {"FI_EFA_USE_DEVICE_RDMA", "0", ManifestSeverity::warning, "writes are emulated by messages", "leave it out"},
    {"FI_EFA_USE_DEVICE_RDMA", "[^0].*", ManifestSeverity::note, "it is the default of libfabric from 1.18 on",
     "leave it out"},
    {"FI_EFA_ENABLE_SHM_TRANSFER", "1", ManifestSeverity::note, "it is the default", "leave it out"},
    {"NCCL_PROTO", ".*", ManifestSeverity::warning, "it takes from NCCL's tuner a choice that depends on the size",
     "leave it out"},
    {"NCCL_ALGO", ".*", ManifestSeverity::warning, "it takes from NCCL's tuner a choice that depends on the size",
     "leave it out"},
};

void check_suspicious(const YamlNode& at, const std::string& name, const std::string& value,
                      ManifestFindings& findings) {
  for (const Suspicious& one : kSuspicious) {
    if (name != one.name || value.size() > 200 || !std::regex_match(value, std::regex(one.value))) continue;
    findings.add(one.severity, "suspicious-env", at, {fmt::format("{}={}", name, shown(value)), one.why, one.fix});
    return;
  }
}

// `$NAME` or `${NAME}`; `$(NAME)` and `$$` are Kubernetes' own.
bool has_shell_variable(const std::string& value) {
  static const std::regex variable(R"((^|[^$])\$(\{[A-Za-z_]|[A-Za-z_]))");
  return std::regex_search(value, variable);
}

void check_env(const YamlNode& container, ManifestFindings& findings) {
  std::set<std::string> seen;
  for (const YamlNode& one : container["env"].items) {
    const std::string& name = one["name"].text;
    const YamlNode& value = one["value"];
    if (!seen.insert(name).second) {
      findings.add(ManifestSeverity::warning, "duplicate-env", one,
                   {fmt::format("{} is set a second time", shown(name)), "the last one counts", "keep one of them"});
    }
    if (value.kind == YamlNode::Kind::text && has_shell_variable(value.text)) {
      findings.add(ManifestSeverity::error, "shell-variable", value,
                   {fmt::format("{} is '{}'", shown(name), shown(value.text)),
                    "Kubernetes does not know $NAME: the variable holds this very text",
                    "write the value out, or $(NAME) for a variable that stands above it in this list"});
    }
    static const std::regex reference(R"((^|[^$])\$\(([A-Za-z_][A-Za-z0-9_.-]*)\))");
    std::smatch match;
    // Names from envFrom and of services are not known here.
    if (value.text.size() < 4096 && !container["envFrom"].is_given() &&
        std::regex_search(value.text, match, reference) && !seen.contains(match[2]) &&
        !match[2].str().ends_with("_SERVICE_HOST") && !match[2].str().ends_with("_SERVICE_PORT")) {
      findings.add(
          ManifestSeverity::warning, "unknown-reference", value,
          {fmt::format("{} refers to $({}), which is not set above it", shown(name), match[2].str()),
           "Kubernetes leaves the text as it is", fmt::format("set {} further up in this list", match[2].str())});
    }
    if (value.is_given()) check_suspicious(value, name, value.text, findings);
  }
}

void check_ranks(const JobView& view, const MpirunLine& line, ManifestFindings& findings) {
  if (!view.slots || !view.nodes) return;
  const int slots = *view.nodes * *view.slots;
  const std::string have = fmt::format("{} nodes{} with {} slots each have {}", *view.nodes,
                                       view.launcher_works ? ", the launcher among them," : "", *view.slots, slots);
  const YamlNode& where = *line.where;
  if (line.ranks && *line.ranks > slots) {
    findings.add(ManifestSeverity::error, "ranks", where,
                 {fmt::format("mpirun is to start {} ranks; {}", *line.ranks, have),
                  "mpirun refuses, or puts several ranks on one GPU",
                  fmt::format("-np {}, or other numbers of replicas and slotsPerWorker", slots)});
  } else if (line.ranks && *line.ranks < slots) {
    findings.add(ManifestSeverity::warning, "ranks", where,
                 {fmt::format("mpirun is to start {} ranks; {}", *line.ranks, have),
                  "the other slots, and what was reserved for them, stay idle",
                  fmt::format("-np {}, or other numbers of replicas and slotsPerWorker", slots)});
  }
  if (line.ranks_per_node && *line.ranks_per_node > *view.slots) {
    findings.add(
        ManifestSeverity::error, "ranks-per-node", where,
        {fmt::format("mpirun is to put {} ranks on each node, which has {} slots", *line.ranks_per_node, *view.slots),
         "mpirun refuses: there are not enough slots", fmt::format("slotsPerWorker: {}", *line.ranks_per_node)});
  }
}

// What a script sets by `export NAME=`.
std::vector<std::string> exported_by_script(const std::string& script) {
  static constexpr std::string_view kExport = "export ";
  std::vector<std::string> names;
  for (std::size_t at = script.find(kExport); at != std::string::npos; at = script.find(kExport, at)) {
    at += kExport.size();
    const std::size_t end = script.find_first_of("= \t\n;&", at);
    if (end != std::string::npos && script[end] == '=') names.push_back(script.substr(at, end - at));
  }
  return names;
}

void check_export(const JobView& view, const MpirunLine& line, ManifestFindings& findings) {
  if (!view.is_open_mpi || !line.is_understood) return;
  std::set<std::string> told;
  const auto missing = [&](const YamlNode& at, const std::string& name, const std::string& who) {
    if (!is_for_ranks(name) || line.exports(name) || !told.insert(name).second) return;
    findings.add(ManifestSeverity::warning, "not-exported", at,
                 {fmt::format("{} is set {}, and mpirun is not told to hand it on", shown(name), who),
                  "ranks are children of sshd, which does not give them a pod's environment",
                  fmt::format("mpirun -x {}", shown(name))});
  };
  for (const YamlNode& one : view.launcher.container["env"].items) missing(one, one["name"].text, "in the launcher");
  for (const std::string& name : exported_by_script(command_text(view.launcher.container))) {
    missing(*line.where, name, "by the launcher's script");
  }
  for (const YamlNode& one : view.worker.container["env"].items) missing(one, one["name"].text, "in the workers");
}

// A loop that waits for sshd, with nothing in it that counts or looks at a clock.
void check_waiting(const JobView& view, ManifestFindings& findings) {
  if (view.spec["runPolicy"]["activeDeadlineSeconds"].is_given()) return;
  for (const char* key : {"command", "args"}) {
    for (const YamlNode& item : view.launcher.container[key].items) {
      for (const char* word : {"until ", "while "}) {
        const std::size_t begin = item.text.find(word);
        if (begin == std::string::npos) continue;
        const std::string loop = item.text.substr(begin, item.text.find("done", begin) - begin);
        const auto has = [&](const char* text) { return loop.find(text) != std::string::npos; };
        const bool is_bounded = has("SECONDS") || has("timeout ") || has("break") || has("exit") || has("((") ||
                                has("-gt") || has("-ge") || has("-lt") || has("-le");
        if (!(has("ssh ") || has("nc -")) || is_bounded) continue;
        findings.add(ManifestSeverity::warning, "endless-wait", item,
                     {"the launcher waits for sshd without end, and the job has no deadline",
                      "when one worker is dead the job hangs, and all nodes are paid for",
                      "count the attempts and exit, or set spec.runPolicy.activeDeadlineSeconds"});
      }
    }
  }
}

void check_mpirun(const JobView& view, const MpirunLine& line, ManifestFindings& findings) {
  check_ranks(view, line, findings);
  check_export(view, line, findings);
  for (const auto& [name, value] : line.exported) {
    if (!value.empty()) check_suspicious(*line.where, name, value, findings);
  }
  const bool is_root = !view.spec["sshAuthMountPath"].is_given() || view.spec["sshAuthMountPath"].text == "/root/.ssh";
  bool allows_root = line.allows_root;
  for (const YamlNode& one : view.launcher.container["env"].items) {
    allows_root = allows_root || one["name"].text == "OMPI_ALLOW_RUN_AS_ROOT";
  }
  if (view.is_open_mpi && is_root && !allows_root && line.is_understood) {
    findings.add(ManifestSeverity::warning, "run-as-root", *line.where,
                 {"mpirun runs as root, as whose keys are in /root/.ssh, without --allow-run-as-root",
                  "Open MPI refuses to start", "mpirun --allow-run-as-root"});
  }
}

}  // namespace

void check_launch(const JobView& view, ManifestFindings& findings) {
  for (const Replica* replica : {&view.launcher, &view.worker}) {
    for (const YamlNode& container : replica->pod["containers"].items) check_env(container, findings);
  }
  for (const MpirunLine& line : view.mpirun_lines) check_mpirun(view, line, findings);

  check_waiting(view, findings);

  const std::string program = command_text(view.worker.container);
  static const std::regex idle(R"(^(\S*/)?(sleep|tail)\s[\s\S]*)");
  if (std::regex_match(program.substr(0, 1000), idle)) {
    const YamlNode& command = view.worker.container["command"];
    findings.add(ManifestSeverity::error, "no-sshd", command.is_given() ? command : view.worker.container["args"],
                 {fmt::format("the workers run `{}`", shown(program.substr(0, program.find('\n')))),
                  "mpirun reaches them by ssh, and nothing answers",
                  "delete `command` and `args`: the operator starts /usr/sbin/sshd -De"});
  }
}

}  // namespace mrb
