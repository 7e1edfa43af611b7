#include "report/diagnosis_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/units.hpp"

namespace mrb {

namespace {

using Json = nlohmann::ordered_json;

// "ranks 0-3, 7 (node0, node1)"; many hosts are counted.
std::string place_text(const Finding& finding) {
  if (finding.hosts.empty()) return "the job";
  std::string text;
  for (std::size_t begin = 0; begin < finding.ranks.size();) {
    std::size_t end = begin + 1;
    while (end < finding.ranks.size() && finding.ranks[end] == finding.ranks[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", finding.ranks[begin]);
    if (end - begin > 1) text += fmt::format("-{}", finding.ranks[end - 1]);
    begin = end;
  }
  constexpr std::size_t kHostsShown = 4;
  const std::string hosts = finding.hosts.size() > kHostsShown ? counted(finding.hosts.size(), "host")
                                                               : fmt::format("{}", fmt::join(finding.hosts, ", "));
  if (finding.scope == Scope::node) return hosts;
  return fmt::format("rank{} {} ({})", finding.ranks.size() > 1 ? "s" : "", text, hosts);
}

}  // namespace

std::string verdict_of(const Diagnosis& diagnosis) {
  if (!diagnosis.is_fit()) return "not fit";
  return diagnosis.is_comparable() ? "fit" : "fit, not comparable";
}

std::string finding_text(const Finding& finding) {
  return fmt::format("{:<6}  {}: {}\n        on  {}\n        why {}\n        fix {}\n", severity_text(finding.severity),
                     finding.id, finding.problem, place_text(finding), finding.why, finding.fix);
}

std::string diagnosis_text(const Diagnosis& diagnosis) {
  std::string text = fmt::format("# {} on {} ({}{})\n", counted(static_cast<std::size_t>(diagnosis.ranks), "rank"),
                                 counted(static_cast<std::size_t>(diagnosis.nodes), "node"), diagnosis.host,
                                 diagnosis.instance_type.empty() ? "" : ", " + diagnosis.instance_type);
  for (const Finding& finding : diagnosis.findings) text += finding_text(finding);
  for (const NotLooked& check : diagnosis.not_looked)
    text += fmt::format("# not looked at: {}: {}\n", check.id, check.why);
  return text + fmt::format("{} ({}: {}, {} could not look)\n", verdict_of(diagnosis),
                            counted(static_cast<std::size_t>(diagnosis.checks), "check"),
                            counted(diagnosis.findings.size(), "finding"), diagnosis.not_looked.size());
}

std::vector<std::string> finding_lines(const Diagnosis& diagnosis, Severity severity) {
  std::vector<std::string> lines;
  for (const Finding& finding : diagnosis.findings) {
    if (finding.severity == severity)
      lines.push_back(fmt::format("{}: {} ({})", finding.id, finding.problem, place_text(finding)));
  }
  return lines;
}

Json diagnosis_json(const Diagnosis& diagnosis) {
  Json findings = Json::array(), not_looked = Json::array();
  for (const Finding& finding : diagnosis.findings) {
    findings.push_back({{"id", finding.id},
                        {"scope", scope_text(finding.scope)},
                        {"severity", severity_text(finding.severity)},
                        {"problem", finding.problem},
                        {"ranks", finding.ranks},
                        {"hosts", finding.hosts},
                        {"reads", finding.reads},
                        {"why", finding.why},
                        {"fix", finding.fix}});
  }
  for (const NotLooked& check : diagnosis.not_looked) not_looked.push_back({{"id", check.id}, {"why", check.why}});
  return {{"verdict", verdict_of(diagnosis)}, {"fit", diagnosis.is_fit()}, {"comparable", diagnosis.is_comparable()},
          {"checks", diagnosis.checks},       {"findings", findings},      {"not_looked", not_looked}};
}

}  // namespace mrb
