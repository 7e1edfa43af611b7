#include "manifest/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "config/faults.hpp"
#include "manifest/rules.hpp"

namespace mrb {

namespace {

std::string_view severity_text(ManifestSeverity severity) {
  return severity == ManifestSeverity::error ? "error" : severity == ManifestSeverity::warning ? "warning" : "note";
}

bool is_mpi_job(const YamlNode& document) {
  std::string kind = document["kind"].text;
  std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
  return kind == "mpijob" || document["spec"]["mpiReplicaSpecs"].is_given();
}

void check_job(const YamlNode& job, ManifestFindings& findings) {
  if (const YamlNode& kind = job["kind"]; kind.text != "MPIJob") {
    findings.add(
        ManifestSeverity::error, "kind", kind.is_given() ? kind : job,
        {fmt::format("kind is '{}'", shown(kind.text)), "the API server knows MPIJob, spelt so", "kind: MPIJob"});
  }
  check_fields(job, findings);
  const JobView view(job);
  check_operator_rules(view, findings);
  check_pods(view, findings);
  check_launch(view, findings);
}

void check_documents(const std::vector<YamlNode>& documents, ManifestCheck& check, ManifestFindings& findings) {
  for (const YamlNode& document : documents) {
    if (document["kind"].text == "List" && document["items"].kind == YamlNode::Kind::list) {
      check_documents(document["items"].items, check, findings);
    } else if (is_mpi_job(document)) {
      ++check.jobs;
      check_job(document, findings);
    } else {
      ++check.others;
    }
  }
}

// What holds for the file, not for a place in it.
ManifestFinding of_file(const char* rule, Words words) {
  return {ManifestSeverity::error, rule, "", 0, std::move(words)};
}

std::string plural(int count, const std::string& word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

}  // namespace

int ManifestCheck::count(ManifestSeverity severity) const {
  return static_cast<int>(std::count_if(findings.begin(), findings.end(),
                                        [&](const ManifestFinding& finding) { return finding.severity == severity; }));
}

ManifestCheck check_manifest(const std::string& file, const std::string& text) {
  ManifestCheck check{.file = file};
  ManifestFindings findings;
  try {
    check_documents(parse_yaml(file, text), check, findings);
  } catch (const Error& error) {
    const std::string words = error.what();
    const std::size_t fix = words.find("\n  fix: ");
    const bool is_template = text.find("{{") != std::string::npos && text.find("}}") != std::string::npos;
    check.findings.push_back(
        is_template ? of_file("placeholder", {"the file holds {{...}}", "this is a template of Go or Helm, no YAML yet",
                                              "fill it in first: helm template CHART | moe-rl-bench manifest check -"})
                    : of_file("yaml", {words.substr(0, fix), "kubectl cannot read it either", words.substr(fix + 8)}));
    return check;
  }
  check.findings = findings.all();
  std::stable_sort(check.findings.begin(), check.findings.end(),
                   [](const ManifestFinding& a, const ManifestFinding& b) { return a.line < b.line; });
  if (check.jobs == 0) {
    check.findings.push_back(
        of_file("no-job", {fmt::format("there is no MPIJob among {}", plural(check.others, "object")),
                           "other kinds are not looked at", "give a file with kind: MPIJob"}));
  }
  return check;
}

std::string check_text(const ManifestCheck& check) {
  std::string text;
  for (const ManifestFinding& finding : check.findings) {
    const std::string place = finding.line > 0 ? fmt::format("{}:{}", check.file, finding.line) : check.file;
    text +=
        fmt::format("{}: {}: {} [{}]\n", place, severity_text(finding.severity), finding.words.problem, finding.rule);
    if (!finding.path.empty()) text += fmt::format("  at:  {}\n", finding.path);
    text += fmt::format("  why: {}\n  fix: {}\n", finding.words.why, finding.words.fix);
  }
  return text +
         fmt::format("{}: {}{}: {}, {}, {}\n", check.file, plural(check.jobs, "MPIJob"),
                     check.others == 0 ? "" : fmt::format(" (and {} not looked at)", plural(check.others, "object")),
                     plural(check.count(ManifestSeverity::error), "error"),
                     plural(check.count(ManifestSeverity::warning), "warning"),
                     plural(check.count(ManifestSeverity::note), "note"));
}

std::string check_json(const ManifestCheck& check) {
  nlohmann::ordered_json json = {{"file", check.file},
                                 {"jobs", check.jobs},
                                 {"errors", check.count(ManifestSeverity::error)},
                                 {"warnings", check.count(ManifestSeverity::warning)},
                                 {"notes", check.count(ManifestSeverity::note)},
                                 {"findings", nlohmann::ordered_json::array()}};
  for (const ManifestFinding& finding : check.findings) {
    json["findings"].push_back({{"severity", severity_text(finding.severity)},
                                {"rule", finding.rule},
                                {"path", finding.path},
                                {"line", finding.line},
                                {"problem", finding.words.problem},
                                {"why", finding.words.why},
                                {"fix", finding.words.fix}});
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace mrb
